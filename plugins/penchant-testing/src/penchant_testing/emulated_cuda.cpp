// What a CPU build of torch needs to take `cuda` for a device that exists: a guard that switches
// between devices, and hooks that count them and make generators. Memory and kernels are Python's
// (emulated_device.py). Loaded before torch, because torch looks for hooks once.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

constexpr c10::DeviceIndex kDevices = 2;
thread_local c10::DeviceIndex current = 0;

c10::Device device_of(c10::DeviceIndex index) {
  return c10::Device(c10::DeviceType::CUDA, index < 0 ? current : index);
}

// Devices are switched; streams and events have nothing to wait for.
struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  c10::Device getDevice() const override { return device_of(current); }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) current = device.index();
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device_of(device.index()));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    return getStream(stream.device());
  }
  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    *event = reinterpret_cast<void*>(1);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  void synchronizeEvent(void*) const override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
};

// Draws the CPU's numbers, and says that it belongs to a device.
struct Generator final : at::CPUGeneratorImpl {
  explicit Generator(c10::DeviceIndex index) { device_ = device_of(index); }
};

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasCuSOLVER() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return kDevices; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex current_device() const override { return current; }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<Generator>(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    static const at::Generator defaults[kDevices] = {getNewGenerator(0), getNewGenerator(1)};
    return defaults[device_of(index).index()];
  }
};

const Guard guard;
const bool registered = [] {
  const auto index = static_cast<size_t>(c10::DeviceType::CUDA);
  c10::impl::device_guard_impl_registry[index].store(&guard);
  return true;
}();

}  // namespace

namespace at {
C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", Hooks)
}

// Called from Python: the device of this thread.
extern "C" int penchant_current_device() { return current; }
extern "C" void penchant_set_device(int index) { current = static_cast<c10::DeviceIndex>(index); }
