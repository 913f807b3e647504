"""The probe `hessian-spectrum`: spectra of the Hessian, of G, and of E = Hess - G."""

import copy
import functools
from dataclasses import replace
from typing import Any, NamedTuple

import penchant
import torch
from penchant_numerics.curvature import (
    DRAWS,
    LOSSES,
    GaussNewton,
    Hessian,
    OwnGaussNewton,
    convex_columns,
    gauss_newton_columns,
    has_closed_form,
    numbers_of,
)
from penchant_numerics.curvature.sample_traces import sample_traces
from penchant_numerics.data import Samples, in_precision, kind_of
from penchant_numerics.device import accumulation_dtype, memory
from penchant_numerics.jacobians import Modules
from penchant_numerics.layers import MOST_OUTPUTS
from penchant_numerics.linear_algebra import (
    BASIS_SHARE,
    Dense,
    Eigenpairs,
    Operator,
    Quadrature,
    exact_pairs,
    exact_quadrature,
    lanczos_eigenpairs,
    quadrature,
    spanning_grid,
    subspace_iteration,
)
from penchant_numerics.linear_algebra.spectral_density import spectral_density
from torch import Tensor, nn

from penchant_class_structure.declarations.hessian_spectrum import HessianSpectrum
from penchant_class_structure.hessian_spectrum.affordable import affordable
from penchant_class_structure.hessian_spectrum.negative_mass import negative_mass
from penchant_class_structure.hessian_spectrum.residual_tail import HIGH, LOW, residual_tail
from penchant_class_structure.hessian_spectrum.work_ahead import (
    check_length,
    forward_operations,
    work_ahead,
)
from penchant_class_structure.shared.measured_network import (
    classes_measured,
    first_of_classes,
    loss_on,
    measured,
    measured_loss,
    of_classes,
    parameter_count,
    saying,
    stderr_of,
)
from penchant_class_structure.shared.multi_device import multi_device, neighbours
from penchant_class_structure.shared.own_samples import some_of
from penchant_class_structure.shared.spectra_by_module import (
    Blocks,
    Trace,
    Watched,
    blocks_of,
    check_steps,
    diagonal_traces,
    tables,
)

SUFFIXES = {"hessian": "", "gauss-newton": "-gauss-newton"}  # of the names of leading eigenvalues
UNCERTAIN_MASS = 0.1  # largest difference of the bounds of the negative mass
MOST_LEADING = 20  # leading eigenvalues, unless more are requested
_VECTORS = 4  # held at once by a search, for each eigenvalue that is searched for


class Measured(NamedTuple):
    """A network on some samples, and the loss whose curvature is meant."""

    network: nn.Module
    samples: Samples
    loss: str
    split: str  # train or test
    modules: Modules | None = None  # that are measured by themselves

    def coordinates(self) -> dict[str, Tensor]:
        """Where each module lies among all parameters."""
        return self.modules.coordinates(self.network) if self.modules else {}


class Spectrum(NamedTuple):
    """What is known of one operator."""

    operator: Operator
    measure: Quadrature
    leading: Eigenpairs | None

    @property
    def exact(self) -> bool:
        """Whether all eigenvalues are known."""
        return isinstance(self.operator, Dense)


def run(options: HessianSpectrum, context: penchant.Context) -> penchant.Result:
    """Measure at the end of the training, on training samples, test samples, or both."""
    _refuse_many_vectors(options, context)
    modules = Modules.of_option(options.parameters, context.network)
    check_steps(options)
    options, count = affordable(options, context, _outputs(options, context))
    # names of test samples have a prefix where there are both
    splits = {"": options.split}
    if options.split == "both":
        splits = {"": "train", "test-": "test"}
    chosen_of = {split: _samples(split, options, context) for split in splits.values()}
    if count is not None:
        chosen_of = {name: some_of(each, count, context) for name, each in chosen_of.items()}
    _say_what_it_takes(list(chosen_of.values()), options, context)
    *_, (_, network) = context.trained()
    network = of_classes(measured(network, options, context), options, context)
    loss = measured_loss(options, context)
    _check_loss(loss, options, context)

    quantities: dict[str, penchant.Quantity] = {}
    arrays: dict[str, Any] = {}
    by_split: dict[str, Blocks] = {}
    for prefix, split in splits.items():
        given = Measured(network, chosen_of[split], loss, split, modules)
        numbers, pictures, by_split[split] = _measure(given, options, context)
        for name, value in numbers.items():
            quantities[f"{prefix}{name}"] = value
        for name, array in pictures.items():
            arrays[f"{prefix}{name}"] = array
    missing = [name for name, value in quantities.items() if value.missing]
    return penchant.Result(
        quantities,
        arrays,
        tables=tables(by_split, options) if modules else {},
        conventions=_conventions(options, splits, loss, context.data.train.kind.terms_described),
        missing=tuple(missing),
    )


def _check_loss(loss: str, options: HessianSpectrum, context: penchant.Context) -> None:
    """G and E of sequences are known for two losses; the Hessian for every one."""
    plain = options.matrices == ("hessian",) or not context.data.train.kind.by_position
    if has_closed_form(loss) or plain:
        return
    actual = f"found {loss!r} and matrices {list(options.matrices)}"
    listed = " and ".join(filter(has_closed_form, LOSSES))
    raise penchant.Error(
        f"G and E of sequences are taken for {listed}, {actual}: "
        'matrices = ["hessian"] takes any loss'
    )


def _samples(split: str, options: HessianSpectrum, context: penchant.Context) -> Samples:
    """The samples of a split that are measured."""
    given = getattr(context.data, split)
    classes = classes_measured(options, context)
    if given.kind.by_position or not context.data.classes:
        # they have no class: as many altogether
        count = options.per_class or len(given.labels)
        numbers = torch.arange(len(given.labels), device=given.labels.device)
        first: Samples = given.select(numbers[:count])
        return first
    return first_of_classes(given, options.per_class, classes)


def _say_what_it_takes(
    splits: list[Samples], options: HessianSpectrum, context: penchant.Context
) -> None:
    """Refuse or warn before the training where products would take hours; small networks none."""
    network = context.network()
    if sum(each.numel() for each in network.parameters()) <= options.exact_limit:
        return
    counts = [len(samples.labels) for samples in splits]
    work = work_ahead(
        options,
        leading=_leading_count(options, context),
        outputs=_columns(splits[0], _outputs(options, context)),
        samples=counts,
        forward=forward_operations(network, splits[0].inputs),
    )
    check_length(work, sum(counts), options, context)


def _columns(samples: Samples, classes: int) -> int:
    """Columns of a sample in the trace of G."""
    if not samples.kind.by_position:
        return classes
    every = samples.kind.positions * classes
    return every if every <= MOST_OUTPUTS else DRAWS


def _refuse_many_vectors(options: HessianSpectrum, context: penchant.Context) -> None:
    """Leading eigenvectors are as large as all parameters: refuse them before the training."""
    size = parameter_count(context)
    count = min(_leading_count(options, context), size)
    memory.require(
        _VECTORS * count * size * torch.finfo(context.dtype).bits // 8,
        what=f"the search for {count} leading eigenvectors of {size:,} parameters",
        hint="ask for fewer with `leading`",
        device=context.device,
    )


def _leading_count(options: HessianSpectrum, context: penchant.Context) -> int:
    """Leading eigenvalues that are found one by one."""
    if options.leading:
        return options.leading
    return min(_outputs(options, context), MOST_LEADING)


def _outputs(options: HessianSpectrum, context: penchant.Context) -> int:
    """Outputs that are measured: one per class, or one per component of a label."""
    return classes_measured(options, context) or context.data.outputs


def _measure(
    given: Measured, options: HessianSpectrum, context: penchant.Context
) -> tuple[dict[str, penchant.Quantity], dict[str, Any], Blocks]:
    """Everything about one set of samples."""
    spectra = {}
    for name, operator in _operators(given, options, context.device).items():
        spectra[name] = _spectrum(name, operator, given.split, options, context)
    variants = [f"{name} {spectrum.measure.variant}" for name, spectrum in spectra.items()]
    context.conventions[f"Lanczos ({given.split})"] = ", ".join(variants)

    # what there is depends on which matrices were requested
    arrays = _densities(spectra, options) | _leading_arrays(spectra)
    quantities, traces = _traces(given, spectra, options, context)
    quantities |= _largest(given, spectra)
    quantities["loss"] = loss_on(given.network, given.samples, given.loss)
    if "hessian" in spectra:
        quantities |= _negative(spectra["hessian"].measure, options)
        if options.undeflated:
            grid = arrays["density-grid"]
            arrays |= _undeflated(spectra["hessian"], grid, given.split, options, context)
    if "residual" in spectra:
        measure = spectra["residual"].measure
        numbers, pictures = residual_tail(measure, given.split, options, context)
        quantities |= numbers
        arrays |= pictures
    return quantities, arrays, _blocks(given, spectra, traces, options, context)


def _blocks(
    given: Measured,
    spectra: dict[str, Spectrum],
    traces: dict[str, dict[str, Trace]],
    options: HessianSpectrum,
    context: penchant.Context,
) -> Blocks:
    """The diagonal blocks of modules; none without modules."""
    coordinates = given.coordinates()
    if not coordinates:
        return {}
    blocks = {}
    for name, spectrum in spectra.items():
        products = options.starts * options.lanczos_steps
        if spectrum.leading is not None:
            products += spectrum.leading.products
        blocks[name] = blocks_of(
            spectrum.operator,
            traces[name],
            coordinates,
            products=products,
            count=_leading_count(options, context),
            options=options,
            generators=functools.partial(context.generator, "module", name, given.split),
        )
    return blocks


def _leading_arrays(spectra: dict[str, Spectrum]) -> dict[str, Any]:
    """Leading eigenvalues of the Hessian and of G with their residuals, where they were found."""
    arrays = {}
    for name, suffix in SUFFIXES.items():
        pairs = spectra[name].leading if name in spectra else None
        if pairs is not None:
            arrays[f"top-eigenvalues{suffix}"] = pairs.values
            arrays[f"top-residuals{suffix}"] = pairs.residuals
    return arrays


def _operators(
    given: Measured, options: HessianSpectrum, device: torch.device
) -> dict[str, Operator]:
    """The matrices that are requested: in double precision, as matrices, for small networks."""
    requested = options.matrices
    network, data = given.network, given.samples
    size = sum(p.numel() for p in network.parameters())
    small = size <= options.exact_limit
    if small:
        # small eigenvalues count as well: use double precision
        wide = accumulation_dtype(data.inputs.device)
        network = copy.deepcopy(network).to(wide)
        data = Samples(in_precision(data.inputs, wide), data.labels)

    # E needs both, so that each is there where one is requested
    made: dict[str, Operator] = {}
    devices = neighbours(device, options.devices)
    if "hessian" in requested or "residual" in requested:
        made["hessian"] = multi_device(Hessian, network, data, devices=devices, loss=given.loss)
    if "gauss-newton" in requested or "residual" in requested:
        made["gauss-newton"] = _gauss_newton(network, data, devices=devices, loss=given.loss)
    if small:
        # few parameters: by products with all unit vectors
        made = {name: Dense(operator.dense()) for name, operator in made.items()}
    if "residual" in requested:
        made["residual"] = _difference(made["hessian"], made["gauss-newton"])
    return {name: operator for name, operator in made.items() if name in requested}


def _gauss_newton(network: nn.Module, data: Samples, *, devices: Any, loss: str) -> Operator:
    """G: in closed form, or by the Hessian of the loss in the outputs where that is convex."""
    if has_closed_form(loss):
        return multi_device(GaussNewton, network, data, devices=devices, loss=loss)
    return OwnGaussNewton(network, data, loss=loss)


def _difference(H: Operator, G: Operator) -> Operator:
    if isinstance(H, Dense) and isinstance(G, Dense):
        return Dense(H.matrix - G.matrix)
    return H - G


def _spectrum(
    name: str, A: Operator, split: str, options: HessianSpectrum, context: penchant.Context
) -> Spectrum:
    """The spectral measure of an operator, its leading eigenvalues found one by one."""
    count = min(_leading_count(options, context), A.size)
    if isinstance(A, Dense):
        return _exact_spectrum(A, options, count)
    leading = None

    # E has no outliers that deflation could take away
    if options.deflate and name != "residual":
        leading = _leading(A, options, context.generator("leading", name, split), count)
        if not bool(leading.converged.all()):
            left, worst = int((~leading.converged).sum()), float(leading.residuals.max())
            context.warn(
                f"{left} leading eigenvalues of {name} ({split}) did not converge in "
                f"{leading.products} products: residuals to {worst:.2g}; more than "
                f"iterations = {options.iterations} allows more products"
            )

    # what is left, as random start vectors see it
    generator = context.generator("density", name, split)
    return Spectrum(A, _quadrature(A, options, generator, leading), leading)


def _quadrature(
    A: Operator, options: HessianSpectrum, generator: torch.Generator, leading: Eigenpairs | None
) -> Quadrature:
    # known eigenvalues have their exact mass
    known = None if leading is None else (leading.values, leading.vectors)
    return quadrature(
        A, generator=generator, steps=options.lanczos_steps, starts=options.starts, known=known
    )


def _leading(
    A: Operator, options: HessianSpectrum, generator: torch.Generator, count: int
) -> Eigenpairs:
    # the paper's own iteration; Lanczos takes far fewer products
    if options.method == "subspace":
        return subspace_iteration(A, count, generator=generator, iterations=options.iterations)
    return lanczos_eigenpairs(
        A,
        count,
        generator=generator,
        products=10 * options.iterations,
        order="largest",
        width=_basis_width(A, count),
    )


def _basis_width(A: Operator, count: int) -> int | None:
    """Vectors that the search stores: fewer than it prefers if the memory budget is small."""
    if memory.given() is None:
        return None
    a_vector = A.size * torch.finfo(A.dtype).bits // 8
    room = memory.fitting(a_vector, A.device, share=BASIS_SHARE)

    # with fewer a restart would leave no room to grow
    least = 2 * count + 2
    liked = max(3 * count, count + 20)
    return min(liked, max(least, room))


def _exact_spectrum(A: Dense, options: HessianSpectrum, count: int) -> Spectrum:
    """All eigenvalues of a matrix; the leading ones count as found one by one."""
    # rounding makes the triangles of a matrix of products differ
    pairs = exact_pairs(A.matrix, A.size, symmetrise=True)
    known = count if options.deflate else 0
    measure = exact_quadrature(pairs.values, steps=options.lanczos_steps, known=known)
    if not options.deflate:
        return Spectrum(A, measure, None)
    leading = Eigenpairs(
        values=pairs.values[:count],
        vectors=pairs.vectors[:, :count],
        residuals=pairs.residuals[:count],
        converged=pairs.converged[:count],
        products=0,
    )
    return Spectrum(A, measure, leading)


def _densities(spectra: dict[str, Spectrum], options: HessianSpectrum) -> dict[str, Any]:
    """Densities on one grid, and again where the bulk is."""
    # each has a range of its own: one grid has room for all
    own = []
    for spectrum in spectra.values():
        density = spectral_density(
            spectrum.measure, points=options.grid_points, kappa=options.kappa
        )
        own.append(density.grid)
    arrays: dict[str, Any] = {"density-grid": spanning_grid(own)}

    # the bulk is where E is
    arrays["bulk-grid"] = own[-1] if "residual" in spectra else _bulk_grid(spectra, options)
    for name, spectrum in spectra.items():
        for prefix, grid in (("", "density-grid"), ("bulk-", "bulk-grid")):
            density = spectral_density(spectrum.measure, kappa=options.kappa, grid=arrays[grid])
            arrays[f"{prefix}density-{name}"] = density.density
            if density.stderr is not None:
                arrays[f"{prefix}density-{name}-stderr"] = density.stderr
    return arrays


def _bulk_grid(spectra: dict[str, Spectrum], options: HessianSpectrum) -> Tensor:
    """Without E: the range of what is left without leading eigenvalues."""
    bulks = [spectrum.measure.bulk for spectrum in spectra.values()]
    low = min(low for low, _ in bulks)
    high = max(high for _, high in bulks)
    return torch.linspace(low, high, options.grid_points, device="cpu", dtype=torch.float64)


def _undeflated(
    spectrum: Spectrum,
    grid: Tensor,
    split: str,
    options: HessianSpectrum,
    context: penchant.Context,
) -> dict[str, Any]:
    """The density that the same steps give where no eigenvalue is known (figure 17)."""
    measure = spectrum.measure
    if spectrum.exact:
        # bumps are as wide as the whole range makes them
        measure = replace(measure, bulk=measure.bounds)
    elif spectrum.leading is not None:
        generator = context.generator("density", "undeflated", split)
        measure = _quadrature(spectrum.operator, options, generator, None)
    density = spectral_density(measure, kappa=options.kappa, grid=grid)
    arrays = {"density-undeflated": density.density}
    if density.stderr is not None:
        arrays["density-undeflated-stderr"] = density.stderr
    return arrays


def _traces(
    given: Measured,
    spectra: dict[str, Spectrum],
    options: HessianSpectrum,
    context: penchant.Context,
) -> tuple[dict[str, penchant.Quantity], dict[str, dict[str, Trace]]]:
    """Tr G from its samples; Tr Hess = Tr G + Tr E with random vectors for E, which is small.

    Also the traces of modules, by matrix.
    """
    quantities: dict[str, penchant.Quantity] = {}
    coordinates = given.coordinates()
    of_modules: dict[str, dict[str, Trace]] = {}
    of_samples = None
    if "gauss-newton" in spectra:
        with saying(context):
            traces = _sample_traces(given, context)
            of_modules["gauss-newton"] = _sample_traces_by_module(given, context)

        # exact for these samples, whatever the size of the network
        of_samples = float(traces.mean())
        quantities["trace-gauss-newton"] = penchant.Quantity(
            of_samples,
            stderr=stderr_of(traces, given.samples.labels),
            over=given.samples.kind.units,
            count=len(traces),
        )
    if "hessian" not in spectra:
        if "residual" in spectra and coordinates:
            E = spectra["residual"].operator
            of_modules["residual"] = _random_traces(E, given, coordinates, options, context)
        return quantities, of_modules

    # Hutchinson's error is in proportion to the matrix: E is much smaller than the Hessian
    generator = context.generator("trace", given.split)
    H = spectra["hessian"].operator
    exact = H.exact_trace()
    if exact is not None:
        quantities["trace-hessian"] = penchant.Quantity(exact, exact=True)
        for name in ("hessian", "residual") if coordinates else ():
            if name in spectra:
                matrix = spectra[name].operator
                assert isinstance(matrix, Dense)  # as the Hessian is
                of_modules[name] = diagonal_traces(matrix.matrix, coordinates)
    else:
        operator, known = H, 0.0
        if of_samples is not None and "residual" in spectra:
            operator, known = spectra["residual"].operator, of_samples
        watched = Watched(operator, coordinates) if coordinates else operator
        estimate = watched.trace(generator=generator, samples=options.trace_samples)
        quantities["trace-hessian"] = penchant.Quantity(
            known + estimate.value,
            stderr=estimate.stderr,
            over="random vectors",
            count=estimate.samples,
        )
        if isinstance(watched, Watched):
            of_modules |= _added(watched.traces(), of_modules, spectra)
            if "residual" in spectra and "residual" not in of_modules:
                E = spectra["residual"].operator
                of_modules["residual"] = _random_traces(E, given, coordinates, options, context)
    return dict(sorted(quantities.items(), reverse=True)), of_modules


def _added(
    estimated: dict[str, Trace],
    of_modules: dict[str, dict[str, Trace]],
    spectra: dict[str, Spectrum],
) -> dict[str, dict[str, Trace]]:
    """Traces of modules of what random vectors were for: of E, which G's are added to, or Hess."""
    if "gauss-newton" not in of_modules or "residual" not in spectra:
        return {"hessian": estimated}
    hessian = {}
    for name, own in of_modules["gauss-newton"].items():
        rest = estimated[name]
        hessian[name] = Trace(own.value + rest.value, rest.stderr)
    return {"hessian": hessian, "residual": estimated}


def _random_traces(
    A: Operator,
    given: Measured,
    coordinates: dict[str, Tensor],
    options: HessianSpectrum,
    context: penchant.Context,
) -> dict[str, Trace]:
    """Traces of modules where the whole has none."""
    if isinstance(A, Dense):
        return diagonal_traces(A.matrix, coordinates)
    watched = Watched(A, coordinates)
    generator = context.generator("module trace", given.split)
    watched.trace(generator=generator, samples=options.trace_samples)
    return watched.traces()


def _sample_traces(
    given: Measured, context: penchant.Context, *, module: str | None = None
) -> Tensor:
    """What each sample, or sequence, contributes to the trace of G; their mean is the trace."""
    samples = given.samples

    def traces_of(network: nn.Module, inputs: Tensor, loss: str) -> Tensor:
        names = None
        if module is not None:
            assert given.modules is not None
            names = given.modules.names(network)[module]
        return sample_traces(network, inputs, loss=loss, parameters=names).double()

    if not has_closed_form(given.loss):
        columns = convex_columns(given.network, samples, loss=given.loss)
        return traces_of(columns, numbers_of(samples.inputs), "squared-error")
    if not samples.kind.by_position:
        return traces_of(given.network, samples.inputs, given.loss)
    generator = context.generator("labels", given.split)
    columns, convention = gauss_newton_columns(
        given.network, samples, loss=given.loss, generator=generator
    )
    context.conventions[f"trace of G ({given.split})"] = convention
    traces = traces_of(columns, numbers_of(samples.inputs), "squared-error")
    return samples.kind.contributions(traces)


def _sample_traces_by_module(given: Measured, context: penchant.Context) -> dict[str, Trace]:
    """Traces of G's blocks, from samples; none without modules."""
    traces = {}
    for name in given.modules.positions if given.modules else ():
        of_samples = _sample_traces(given, context, module=name)
        error = stderr_of(of_samples, given.samples.labels)
        traces[name] = Trace(float(of_samples.mean()), error)
    return traces


def _largest(given: Measured, spectra: dict[str, Spectrum]) -> dict[str, penchant.Quantity]:
    """The largest eigenvalues of the Hessian and of G."""
    quantities = {}
    for name, suffix in SUFFIXES.items():
        if name not in spectra:
            continue
        spectrum = spectra[name]

        # known eigenvalues are among the nodes
        value = max(float(nodes.max()) for nodes in spectrum.measure.nodes)
        if name == "gauss-newton" and spectrum.leading is not None:
            stderr = _stderr_over_samples(given, spectrum.leading)
            quantity = penchant.Quantity(
                value, stderr=stderr, over=given.samples.kind.units, count=len(given.samples.labels)
            )
        elif spectrum.exact:
            quantity = penchant.Quantity(value, exact=True)
        else:
            # an eigenvalue is at most a residual away
            bound = _residual_of_largest(spectrum)
            quantity = penchant.Quantity(value, stderr=bound, over="Lanczos (its residual)")
        quantities[f"largest{suffix}"] = quantity
    return quantities


def _stderr_over_samples(given: Measured, leading: Eigenpairs) -> float | None:
    """What other samples would change in the largest eigenvalue, to first order: x^T G_i x."""
    inputs, labels = given.samples
    network, loss = given.network, given.loss
    if not has_closed_form(loss):
        network, loss = convex_columns(network, given.samples, loss=loss), "squared-error"
        inputs = numbers_of(inputs)
    G = GaussNewton(
        network,
        (inputs, labels if kind_of(labels).by_position else None),
        loss=loss,
        cache=0,
        check=False,
    )
    first = leading.vectors[:, :1].T.to(G.dtype)  # (1, size)

    # |V_i^T x|^2 is a sample's contribution
    products = G.factor().adjoint(first).double()
    by_sample = products.reshape(len(inputs), -1).square().sum(1)
    return stderr_of(given.samples.kind.contributions(by_sample * len(inputs)), labels)


def _residual_of_largest(spectrum: Spectrum) -> float:
    """The bound that the residual puts on the error of the largest eigenvalue."""
    if spectrum.leading is not None:
        return float(spectrum.leading.residuals[spectrum.leading.values.argmax()])
    measure = spectrum.measure

    # without a search: the largest Ritz value of all start vectors
    largest = [float(nodes.max()) for nodes in measure.nodes]
    start = largest.index(max(largest))
    return float(measure.residuals[start][measure.nodes[start].argmax()])


def _negative(measure: Quadrature, options: HessianSpectrum) -> dict[str, penchant.Quantity]:
    """The share of negative eigenvalues, as far as signs are known."""
    mass = negative_mass(measure, uncertain=UNCERTAIN_MASS)
    if mass.stderr is None:
        value = penchant.Quantity(mass.value, exact=True)
    else:
        value = penchant.Quantity(
            mass.value,
            stderr=mass.stderr,
            over="start vectors and Lanczos bounds",
            count=mass.starts,
        )
    return {
        "negative-mass": value,
        "negative-mass-least": penchant.Quantity(mass.least, exact=True),
        "negative-mass-most": penchant.Quantity(mass.most, exact=True),
        "resolution": penchant.Quantity(mass.resolution, exact=True),
    }


def _conventions(
    options: HessianSpectrum, splits: dict[str, str], loss: str, terms: str
) -> dict[str, str]:
    leading = "not deflated"
    if options.deflate:
        leading = f"leading eigenvalues by {options.method}, with their exact mass"

    # say which samples names without a prefix mean
    named = [f"{prefix or 'plain'} names: {split}" for prefix, split in splits.items()]
    names = {"cross-entropy": "softmax cross-entropy", "squared-error": "half the squared error"}
    fisher = "; G is the true Fisher" if loss == "cross-entropy" else ""
    return {
        "loss": f"{names.get(loss, loss)}, mean over {terms}{fisher}",
        "samples": "; ".join(named),
        "density": f"{leading}; Gaussian bumps at Ritz values, "
        f"{options.lanczos_steps} Lanczos steps",
        "log density": f"of log(|eigenvalue| + {options.epsilon:g}), natural logarithm, without "
        "the factor 1/|eigenvalue|",
        "tail": f"density of |eigenvalue| of E from {LOW:g} to {HIGH:g} "
        "of the largest, in bins of equal width on the log axis; from where Lanczos resolves it, "
        "where that is later",
    }
