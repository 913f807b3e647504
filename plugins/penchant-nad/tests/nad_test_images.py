"""Small images in two channels, which worker processes can import as well."""

import torch


def images(generator):
    labels = torch.arange(120, device="cpu") % 5
    pixels = torch.rand(120, 2, 6, 6, generator=generator, device="cpu")
    pixels[torch.arange(120, device="cpu"), 0, labels, labels] += 1
    return (pixels[:80], labels[:80]), (pixels[80:], labels[80:])


def grey(generator):
    labels = torch.arange(60, device="cpu") % 5
    pixels = torch.rand(60, 1, 8, 8, generator=generator, device="cpu")
    return (pixels[:40], labels[:40]), (pixels[40:], labels[40:])


def numbers(generator):
    pixels = torch.rand(120, 2, 6, 6, generator=generator, device="cpu")
    return (pixels[:80], pixels[:80, 0, 0, 0]), (pixels[80:], pixels[80:, 0, 0, 0])
