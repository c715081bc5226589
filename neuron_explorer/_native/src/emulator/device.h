// The emulated device: memory, current device, streams, events, generators.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace nx {

constexpr c10::DeviceType kNeuron = c10::DeviceType::PrivateUse1;
constexpr int kMaxDevices = 64;
constexpr int kStreams = 32;

struct Settings {
  int devices = 2;
  int64_t memory = int64_t{12} << 30;  // bytes of each device
  int first = 0;                       // the current device of a thread that chose none
};
extern Settings g_settings;

// Set once the device was used; a child forked after that must not touch it.
extern std::atomic<bool> g_used;
extern std::atomic<bool> g_forked_after_use;

inline void check_usable() {
  TORCH_CHECK(!g_forked_after_use.load(std::memory_order_relaxed),
              "Cannot re-initialize neuron in forked subprocess. To use neuron with multiprocessing, you must use "
              "the 'spawn' start method");
  g_used.store(true, std::memory_order_relaxed);
}

inline void check_index(int64_t index) {
  TORCH_CHECK(index >= 0 && index < g_settings.devices, "neuron: invalid device ordinal ", index, ": there ",
              g_settings.devices == 1 ? "is 1 device" : c10::str("are ", g_settings.devices, " devices"),
              g_settings.devices == 1 ? c10::str(" (neuron:0)") : c10::str(" (neuron:0 to neuron:", g_settings.devices - 1, ")"));
}

extern thread_local c10::DeviceIndex t_device;

// ---------------------------------------------------------------- memory

struct Memory {
  std::mutex mutex;
  c10::CachingDeviceAllocator::DeviceStats stats[kMaxDevices];
  int64_t requests[kMaxDevices] = {0};
  int64_t frees[kMaxDevices] = {0};

  static constexpr size_t kAggregate = 0;

  // Throws what CUDA throws when the device is full.
  void add(c10::DeviceIndex device, size_t bytes);
  void remove(c10::DeviceIndex device, size_t bytes);
};
extern Memory g_memory;

struct Block {
  c10::DataPtr host;  // what really holds the bytes
  size_t bytes;
  c10::DeviceIndex device;
};

// Takes host memory over as memory of the device.
c10::DataPtr adopt(c10::DataPtr host, size_t bytes, c10::DeviceIndex device);

struct NeuronAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override;
  c10::DataPtr allocate_on(size_t bytes, c10::DeviceIndex device);
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* destination, const void* source, size_t count) const override {
    ::memcpy(destination, source, count);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t = {0, 0}) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  // Overrides since torch 2.10; 2.9 does not ask.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device);
};
extern NeuronAllocator g_allocator;

// ---------------------------------------------------------------- generators

// Draws what a CPU generator with the same seed draws.
struct NeuronGenerator final : c10::GeneratorImpl {
  explicit NeuronGenerator(c10::DeviceIndex device, at::Generator cpu = at::detail::createCPUGenerator())
      : GeneratorImpl(c10::Device(kNeuron, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), cpu(cpu) {}
  at::Generator cpu;
  static c10::DeviceType device_type() { return kNeuron; }
  void set_current_seed(uint64_t seed) override { cpu.set_current_seed(seed); }
  // The CPU's generator has no offset; torch asks every other device's for one to pickle it.
  void set_offset(uint64_t offset) override { TORCH_CHECK(offset == 0, "the neuron generator has no offset"); }
  uint64_t get_offset() const override { return 0; }
  uint64_t current_seed() const override { return cpu.current_seed(); }
  uint64_t seed() override { return cpu.seed(); }
  void set_state(const c10::TensorImpl& state) override { cpu.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return cpu.unsafeGetGeneratorImpl()->get_state(); }

 private:
  NeuronGenerator* clone_impl() const override {
    auto* copy = new NeuronGenerator(device().index(), at::Generator(cpu.unsafeGetGeneratorImpl()->clone()));
    return copy;
  }
};

const at::Generator& default_generator(c10::DeviceIndex device);

// ---------------------------------------------------------------- registration

void register_device();

}  // namespace nx
