#include "device.h"

#include <ATen/Tensor.h>
#include <ATen/record_function.h>

namespace nx {

Settings g_settings;
std::atomic<bool> g_used{false};
std::atomic<bool> g_forked_after_use{false};
thread_local c10::DeviceIndex t_device = static_cast<c10::DeviceIndex>(g_settings.first);
Memory g_memory;
NeuronAllocator g_allocator;

// ---------------------------------------------------------------- memory

static std::string amount(int64_t bytes) {
  constexpr double mib = 1024.0 * 1024.0;
  char text[64];
  if (bytes >= int64_t{1} << 30) snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / mib / 1024.0);
  else snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / mib);
  return text;
}

void Memory::add(c10::DeviceIndex device, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  auto& s = stats[device];
  int64_t used = s.allocated_bytes[kAggregate].current;
  ++requests[device];
  if (used + static_cast<int64_t>(bytes) > g_settings.memory) {
    ++s.num_ooms;
    std::string text = c10::str("neuron out of memory. Tried to allocate ", amount(bytes), ". neuron:", static_cast<int>(device),
                                " (emulated) has a capacity of ", amount(g_settings.memory), ", of which ", amount(used),
                                " is allocated.");
    throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text);
  }
  s.allocation[kAggregate].increase(1);
  s.active[kAggregate].increase(1);
  s.allocated_bytes[kAggregate].increase(bytes);
  s.active_bytes[kAggregate].increase(bytes);
  s.requested_bytes[kAggregate].increase(bytes);
  s.reserved_bytes[kAggregate].increase(bytes);
}

void Memory::remove(c10::DeviceIndex device, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  auto& s = stats[device];
  ++frees[device];
  s.allocation[kAggregate].decrease(1);
  s.active[kAggregate].decrease(1);
  s.allocated_bytes[kAggregate].decrease(bytes);
  s.active_bytes[kAggregate].decrease(bytes);
  s.requested_bytes[kAggregate].decrease(bytes);
  s.reserved_bytes[kAggregate].decrease(bytes);
}

// Tells torch's profiler, as the allocators of real devices do. There is no pool: nothing is reserved.
static void report(void* data, int64_t bytes, c10::DeviceIndex device) {
  size_t total;
  {
    std::lock_guard<std::mutex> lock(g_memory.mutex);
    total = static_cast<size_t>(g_memory.stats[device].allocated_bytes[Memory::kAggregate].current);
  }
  c10::reportMemoryUsageToProfiler(data, bytes, total, 0, c10::Device(kNeuron, device));
}

static void release(void* context) {
  auto* block = static_cast<Block*>(context);
  g_memory.remove(block->device, block->bytes);
  report(block->host.get(), -static_cast<int64_t>(block->bytes), block->device);
  delete block;
}

c10::DataPtr adopt(c10::DataPtr host, size_t bytes, c10::DeviceIndex device) {
  g_memory.add(device, bytes);
  void* data = host.get();
  auto* block = new Block{std::move(host), bytes, device};
  if (data != nullptr) report(data, static_cast<int64_t>(bytes), device);
  return c10::DataPtr(data, block, &release, c10::Device(kNeuron, device));
}

c10::DataPtr NeuronAllocator::allocate_on(size_t bytes, c10::DeviceIndex device) {
  check_usable();
  check_index(device);
  if (bytes == 0) return c10::DataPtr(nullptr, nullptr, &c10::detail::deleteNothing, c10::Device(kNeuron, device));
  // Counted first, so that the host is not asked for memory that the device does not have.
  g_memory.add(device, bytes);
  c10::DataPtr host;
  try {
    at::DisableRecordFunctionGuard unrecorded;  // the host's memory stands for the device's
    host = c10::GetAllocator(c10::DeviceType::CPU)->allocate(bytes);
  } catch (...) {
    g_memory.remove(device, bytes);
    throw;
  }
  void* data = host.get();
  auto* block = new Block{std::move(host), bytes, device};
  report(data, static_cast<int64_t>(bytes), device);
  return c10::DataPtr(data, block, &release, c10::Device(kNeuron, device));
}

c10::DataPtr NeuronAllocator::allocate(size_t bytes) { return allocate_on(bytes, t_device); }

c10::CachingDeviceAllocator::DeviceStats NeuronAllocator::getDeviceStats(c10::DeviceIndex device) {
  check_index(device);
  std::lock_guard<std::mutex> lock(g_memory.mutex);
  return g_memory.stats[device];
}

template <typename F>
static void for_stats(c10::DeviceIndex device, F f) {
  check_index(device);
  std::lock_guard<std::mutex> lock(g_memory.mutex);
  auto& s = g_memory.stats[device];
  for (auto* a : {&s.allocation, &s.active, &s.allocated_bytes, &s.active_bytes, &s.requested_bytes, &s.reserved_bytes})
    f((*a)[0]);
}

void NeuronAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  for_stats(device, [](auto& s) { s.reset_accumulated(); });
  g_memory.stats[device].num_ooms = 0;
}

void NeuronAllocator::resetPeakStats(c10::DeviceIndex device) {
  for_stats(device, [](auto& s) { s.reset_peak(); });
}

std::pair<size_t, size_t> NeuronAllocator::getMemoryInfo(c10::DeviceIndex device) {
  check_index(device);
  std::lock_guard<std::mutex> lock(g_memory.mutex);
  int64_t used = g_memory.stats[device].allocated_bytes[0].current;
  return {static_cast<size_t>(g_settings.memory - used), static_cast<size_t>(g_settings.memory)};
}

// ---------------------------------------------------------------- generators

const at::Generator& default_generator(c10::DeviceIndex device) {
  static std::mutex mutex;
  static at::Generator generators[kMaxDevices];
  if (device < 0) device = t_device;
  check_index(device);
  std::lock_guard<std::mutex> lock(mutex);
  if (!generators[device].defined()) {
    generators[device] = at::make_generator<NeuronGenerator>(device);
    generators[device].set_current_seed(c10::default_rng_seed_val);
  }
  return generators[device];
}

// ---------------------------------------------------------------- guard

struct Event {
  uint64_t recorded_ns = 0;
};

static thread_local c10::StreamId t_streams[kMaxDevices] = {0};
static std::atomic<int> g_next_stream{0};

static uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000ull + static_cast<uint64_t>(t.tv_nsec);
}

// Every operator has run when its call returns, so a stream never has work pending.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kNeuron; }
  c10::Device exchangeDevice(c10::Device d) const override {
    c10::Device old(kNeuron, t_device);
    if (d.index() >= 0) {
      check_index(d.index());
      t_device = d.index();
    }
    return old;
  }
  c10::Device getDevice() const override { return c10::Device(kNeuron, t_device); }
  void setDevice(c10::Device d) const override {
    if (d.index() < 0) return;
    check_index(d.index());
    t_device = d.index();
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.index() >= 0 && d.index() < g_settings.devices) t_device = d.index();
  }
  static c10::Device full(c10::Device d) { return c10::Device(kNeuron, d.index() < 0 ? t_device : d.index()); }
  c10::Stream getStream(c10::Device d) const override {
    d = full(d);
    return c10::Stream(c10::Stream::UNSAFE, d, t_streams[d.index()]);
  }
  c10::Stream getDefaultStream(c10::Device d) const override { return c10::Stream(c10::Stream::DEFAULT, full(d)); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool = false) const override { return getNewStream(d); }
  c10::Stream getNewStream(c10::Device d, int = 0) const override {
    return c10::Stream(c10::Stream::UNSAFE, full(d), 1 + g_next_stream.fetch_add(1) % kStreams);
  }
  c10::Stream exchangeStream(c10::Stream s) const override {
    c10::DeviceIndex i = s.device_index();
    check_index(i);
    c10::Stream old(c10::Stream::UNSAFE, c10::Device(kNeuron, i), t_streams[i]);
    t_streams[i] = s.id();
    return old;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(g_settings.devices); }
  void destroyEvent(void* e, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(e); }
  void record(void** e, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*e == nullptr) *e = new Event();
    static_cast<Event*>(*e)->recorded_ns = now();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const c10::DeviceIndex i) const override {
    if (i >= 0) check_index(i);
  }
  double elapsedTime(void* a, void* b, const c10::DeviceIndex) const override {
    TORCH_CHECK(a != nullptr && b != nullptr, "Both events must be recorded before calculating elapsed time.");
    return (static_cast<double>(static_cast<Event*>(b)->recorded_ns) - static_cast<double>(static_cast<Event*>(a)->recorded_ns)) / 1e6;
  }
};

// ---------------------------------------------------------------- hooks

// Page-locked memory means nothing here; addresses are remembered so that is_pinned() answers.
struct PinnedAllocator final : c10::Allocator {
  static std::mutex& mutex() {
    static auto* m = new std::mutex();
    return *m;
  }
  static std::unordered_map<void*, size_t>& blocks() {
    static auto* b = new std::unordered_map<void*, size_t>();
    return *b;
  }
  static void release_pinned(void* context) {
    auto* p = static_cast<c10::DataPtr*>(context);
    {
      std::lock_guard<std::mutex> lock(mutex());
      blocks().erase(p->get());
    }
    delete p;
  }
  c10::DataPtr allocate(size_t bytes) override {
    auto* host = new c10::DataPtr(c10::GetAllocator(c10::DeviceType::CPU)->allocate(bytes));
    void* data = host->get();
    if (data != nullptr) {
      std::lock_guard<std::mutex> lock(mutex());
      blocks()[data] = bytes;
    }
    return c10::DataPtr(data, host, &release_pinned, c10::Device(c10::DeviceType::CPU));
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* d, const void* s, size_t n) const override { ::memcpy(d, s, n); }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return g_settings.devices > 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex i) const override { return default_generator(i); }
  at::Generator getNewGenerator(c10::DeviceIndex i = -1) const override {
    if (i < 0) i = t_device;
    check_index(i);
    return at::make_generator<NeuronGenerator>(i);
  }
  at::Device getDeviceFromPtr(void*) const override { return c10::Device(kNeuron, t_device); }
  bool isPinnedPtr(const void* p) const override {
    std::lock_guard<std::mutex> lock(PinnedAllocator::mutex());
    auto& blocks = PinnedAllocator::blocks();
    return blocks.find(const_cast<void*>(p)) != blocks.end();
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedAllocator a;
    return &a;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return g_used.load(); }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(g_settings.devices); }
  void setCurrentDevice(c10::DeviceIndex i) const override {
    check_index(i);
    t_device = i;
  }
  c10::DeviceIndex getCurrentDevice() const override { return t_device; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex i) const override {
    c10::DeviceIndex old = t_device;
    if (i >= 0) setCurrentDevice(i);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex i) const override { return exchangeDevice(i); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto* impl = storage.unsafeGetStorageImpl();
    c10::DataPtr fresh = g_allocator.allocate_on(bytes, impl->device().index());
    size_t kept = std::min(bytes, impl->nbytes());
    if (kept > 0) ::memcpy(fresh.get(), impl->data(), kept);
    impl->set_data_ptr_noswap(std::move(fresh));
    impl->set_nbytes(bytes);
  }
};

static void after_fork_child() {
  if (g_used.load()) g_forked_after_use.store(true);
}

void register_device() {
  static bool done = false;
  if (done) return;
  done = true;
  c10::SetAllocator(kNeuron, &g_allocator, 0);
  static Guard guard;
  c10::impl::device_guard_impl_registry[static_cast<size_t>(kNeuron)].store(&guard);
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  pthread_atfork(nullptr, nullptr, after_fork_child);
}

}  // namespace nx
