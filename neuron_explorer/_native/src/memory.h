// Allocations and releases of torch's memory, as instants of kind `memory` in the thread's events.
//
// The CPU's allocator is wrapped: its blocks keep their address as context and are given back by a
// function that notes it and calls the original, so raw pointers work as before. Devices are heard
// where their allocators tell torch's profiler (`c10::reportMemoryUsageToProfiler`): the entry for
// that function in the table of each library that calls it leads here and on to the original. (The
// thread-local slot in which torch's profiler listens would be in its way: it refuses to start while
// the slot is taken.) No tensor is held: a block is a number, its address only finds that number.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "events.h"
#include "imports.h"

namespace nx {

// What a record says about its block; the names of the rows.
enum Word : uint32_t { kAllocate, kRelease, kFound, kLevel, kParameter, kGradient, kState, kBuffer, kWords };
static const char* const kWordNames[kWords] = {"allocate",  "release",  "found",          "level",
                                               "parameter", "gradient", "optimizer state", "buffer"};
constexpr uint32_t kLate = 1;  // `aux`: it was released earlier, when nothing was recorded

struct Block {
  uint64_t number = 0;
  int64_t bytes = 0;
  uint16_t device = 0;
  uint8_t roles = 0;  // a bit for each word from kParameter on
  bool gone = false;  // released while nothing was recorded
};

// Address → block of what was allocated since the recording began, by pieces with a lock each.
class Blocks {
 public:
  struct Piece {
    std::mutex mutex;
    std::unordered_map<const void*, Block> blocks;
  };
  static constexpr size_t kPieces = 64;

  Piece& of(const void* address) {
    auto a = reinterpret_cast<uintptr_t>(address) >> 4;
    return pieces_[(a ^ (a >> 6) ^ (a >> 14)) % kPieces];
  }
  Piece* begin() { return pieces_; }
  Piece* end() { return pieces_ + kPieces; }

 private:
  Piece pieces_[kPieces];
};

static std::atomic<Blocks*> g_blocks{nullptr};  // of the recording, null when memory is not recorded
static std::atomic<uint64_t> g_block_number{0};
static std::atomic<bool> g_memory_paused{false};

// Bytes reserved by device, as last written, of allocators that tell.
static std::mutex g_level_mutex;
static std::unordered_map<uint16_t, int64_t> g_levels;


static uint16_t code_of(c10::Device d) {
  return static_cast<uint16_t>((static_cast<uint16_t>(d.type()) << 8) | static_cast<uint8_t>(d.index()));
}

static c10::Device device_of(uint16_t code) {
  return c10::Device(static_cast<c10::DeviceType>(code >> 8), static_cast<c10::DeviceIndex>(static_cast<int8_t>(code & 0xFF)));
}

// Names and devices of these rows, as ids of the process's tables. They are written when they are
// first needed: a forked child has tables of its own.
struct MemoryIds {
  uint64_t generation = 0;
  uint32_t words[kWords] = {0};
  std::unordered_map<uint16_t, uint32_t> devices;
};
static std::mutex g_ids_mutex;
static MemoryIds g_ids;

static void memory_ids(Session* s, uint32_t word, uint16_t device, uint32_t* name, uint32_t* signature) {
  std::lock_guard<std::mutex> lock(g_ids_mutex);
  if (g_ids.generation != s->generation) {
    g_ids = MemoryIds();
    g_ids.generation = s->generation;
  }
  uint32_t& known = g_ids.words[word];
  uint32_t& place = g_ids.devices[device];
  if (known == 0 || place == 0) {
    std::lock_guard<std::mutex> tables(s->tables.mutex);
    if (known == 0) known = s->tables.name(kWordNames[word], 255);
    if (place == 0) {
      uint32_t id = s->tables.signature_count + 1;
      Entry e(kTableSignature);
      e.u32(id).text("").text("").text("").text("").text(device_of(device).str());
      if (s->tables.write(e)) {
        s->tables.signature_count = id;
        place = id;
      }
    }
  }
  *name = known;
  *signature = place;
}

// A device's allocator reports while it holds its lock, for which another thread may be waiting with the
// GIL: then the GIL is not waited for. Inside an event nothing is walked, so that no lock of torch's matters.
static void place_of(Session* s, ThreadState* t, const Open* parent, bool wait, uint32_t* stack, uint32_t* module,
                     uint8_t* flags) {
  if (parent != nullptr) {
    *stack = parent->stack;
    *module = parent->module;
  }
  if (!s->options.stacks || t->in_python || t->compiling) return;
  PyThreadState* python = t->python != nullptr ? t->python : PyGILState_GetThisThreadState();
  RawFrame* f = python == nullptr ? nullptr : innermost(python);
  if (f == nullptr) return;
  if (parent != nullptr && parent->kind <= kAutograd && parent->frame == f && parent->instruction == instruction_of(f))
    return;
  StackResult r = walk(s, t, f, true, wait);
  if (r.tracing || r.stack == 0) return;
  *stack = r.stack;
  if (r.module != 0 || parent == nullptr) *module = r.module;
  *flags = kOwnStack | (r.cut ? kStackCut : 0);
}

static void write_memory(uint32_t word, uint64_t number, int64_t bytes, uint16_t device, uint32_t aux = 0) {
  Session* s = g_session.load(std::memory_order_acquire);
  if (s == nullptr || s->failed.load(std::memory_order_relaxed) != 0) return;
  ThreadState* t = state_for(s);
  if (t == nullptr) return;
  // It may interrupt a callback of this thread that runs Python code (a collection of garbage).
  bool outer = t->inside.exchange(true, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (g_session.load(std::memory_order_relaxed) == s) {
    if (__builtin_expect(t->late_count.load(std::memory_order_relaxed) != 0, 0) && !outer) drop_late(t);
    const Open* parent = t->open.empty() ? nullptr : &t->open.back();
    uint32_t stack = 0, module = 0, name = 0, signature = 0;
    uint8_t flags = 0;
    place_of(s, t, parent, (device >> 8) == 0, &stack, &module, &flags);
    size_t at = (word << 2) | (device & 3);
    MemoryName& known = t->memory_names[at % kMemoryNames];
    if (__builtin_expect(known.word != word + 1 || known.device != device, 0)) {
      memory_ids(s, word, device, &known.name, &known.signature);
      known.word = word + 1;
      known.device = device;
    }
    name = known.name;
    signature = known.signature;
    auto* record = name == 0 ? nullptr : static_cast<Record*>(t->events.take(sizeof(Record)));
    if (__builtin_expect(record == nullptr, 0)) {
      fail(s, t->events.error());
      s->dropped.fetch_add(1, std::memory_order_relaxed);
    } else {
      uint64_t now = now_ns();
      if (now < t->last_start) now = t->last_start;
      t->last_start = now;
      ++t->count;
      record->end = now;
      record->self = number;
      record->seq = bytes;
      record->name = name;
      record->stack = stack;
      record->signature = signature;
      record->module = module;
      record->parent = parent == nullptr ? kNone : parent->index;
      record->aux = aux;
      record->node = parent == nullptr ? kNone : parent->kind == kAutograd ? parent->index : parent->node;
      record->depth = static_cast<uint16_t>(t->open.size() < 0xFFFF ? t->open.size() : 0xFFFF);
      record->flags = flags;
      record->kind = kMemory;
      __atomic_store_n(&record->start, now, __ATOMIC_RELEASE);
    }
  }
  if (!outer) t->inside.store(false, std::memory_order_release);
}

// A forked child counts what it allocates itself.
static Blocks* blocks() {
  Blocks* b = g_blocks.load(std::memory_order_acquire);
  if (__builtin_expect(b != nullptr && g_session.load(std::memory_order_relaxed) == nullptr, 0)) {
    if (!g_child_pending.load() || adopt_child() == nullptr) return nullptr;
  }
  return b;
}

static void allocated(const void* address, int64_t bytes, uint16_t device) {
  Blocks* all = blocks();
  // What an emulated device does on the CPU is not the program's, and not observed.
  if (all == nullptr || g_memory_paused.load(std::memory_order_relaxed)) return;
  if ((device >> 8) == 0 && !at::isRecordFunctionEnabled()) return;
  Block b;
  b.number = g_block_number.fetch_add(1, std::memory_order_relaxed) + 1;
  b.bytes = bytes;
  b.device = device;
  Block before;
  {
    auto& piece = all->of(address);
    std::lock_guard<std::mutex> lock(piece.mutex);
    Block& slot = piece.blocks[address];
    before = slot;
    slot = b;
  }
  // An address comes back only after its release: that of this one was not heard.
  if (before.number != 0) write_memory(kRelease, before.number, -before.bytes, before.device, kLate);
  write_memory(kAllocate, b.number, bytes, device);
}

// `bytes`: of a block that is not known, where the allocator says it; else 0.
static void released(const void* address, int64_t bytes, uint16_t device) {
  Blocks* all = blocks();
  if (all == nullptr) return;
  Block b;
  {
    auto& piece = all->of(address);
    std::lock_guard<std::mutex> lock(piece.mutex);
    auto it = piece.blocks.find(address);
    if (it != piece.blocks.end()) {
      if (g_memory_paused.load(std::memory_order_relaxed)) {
        it->second.gone = true;
        return;
      }
      b = it->second;
      piece.blocks.erase(it);
    }
  }
  if (b.number != 0) write_memory(kRelease, b.number, -b.bytes, b.device, b.gone ? kLate : 0);
  else if (bytes > 0 && !g_memory_paused.load(std::memory_order_relaxed)) write_memory(kRelease, 0, -bytes, device);
}

// ---------------------------------------------------------------- the CPU's allocator

struct CpuAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = inner->allocate(bytes);
    if (g_blocks.load(std::memory_order_relaxed) == nullptr || data.get() == nullptr || give_back == nullptr) return data;
    // A block that is more than its address is left as it is.
    if (data.get() != data.get_context() || !data.compare_exchange_deleter(give_back, &release)) return data;
    allocated(data.get(), static_cast<int64_t>(bytes), code_of(c10::Device(c10::DeviceType::CPU)));
    return data;
  }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return inner->is_simple_data_ptr(data); }
  c10::DeleterFnPtr raw_deleter() const override {
    return g_blocks.load(std::memory_order_relaxed) == nullptr || give_back == nullptr ? inner->raw_deleter() : &release;
  }
  void copy_data(void* to, const void* from, size_t count) const override { inner->copy_data(to, from, count); }

  static void release(void* address) {
    if (g_blocks.load(std::memory_order_relaxed) != nullptr) released(address, 0, 0);
    give_back(address);
  }

  c10::Allocator* inner = nullptr;
  static c10::DeleterFnPtr give_back;
};
c10::DeleterFnPtr CpuAllocator::give_back = nullptr;

// Never destroyed: storages keep pointing to it.
static CpuAllocator* g_cpu = nullptr;

static bool wrap_cpu() {
  c10::Allocator* now = c10::GetAllocator(c10::DeviceType::CPU);
  if (g_cpu != nullptr && now == g_cpu) return true;
  // Blocks of the earlier recordings are given back to one allocator only.
  if (g_cpu != nullptr && now != g_cpu->inner) return false;
  if (g_cpu == nullptr) {
    if (now->raw_deleter() == nullptr) return false;
    g_cpu = new CpuAllocator();
    g_cpu->inner = now;
    CpuAllocator::give_back = now->raw_deleter();
  }
  c10::SetAllocator(c10::DeviceType::CPU, g_cpu);
  return c10::GetAllocator(c10::DeviceType::CPU) == g_cpu;
}

static void unwrap_cpu() {
  if (g_cpu != nullptr && c10::GetAllocator(c10::DeviceType::CPU) == g_cpu) c10::SetAllocator(c10::DeviceType::CPU, g_cpu->inner);
}

// ---------------------------------------------------------------- devices

static void level(uint16_t device, int64_t total, int64_t reserved) {
  {
    std::lock_guard<std::mutex> lock(g_level_mutex);
    auto known = g_levels.find(device);
    if (known != g_levels.end() && known->second == reserved) return;
    g_levels[device] = reserved;
  }
  write_memory(kLevel, static_cast<uint64_t>(reserved), total, device);
}

static void report(void* address, int64_t bytes, size_t total, size_t reserved, c10::Device device) {
  if (g_blocks.load(std::memory_order_relaxed) != nullptr && bytes != 0 && address != nullptr) {
    uint16_t code = code_of(device);
    if (bytes > 0) allocated(address, bytes, code);
    else released(address, -bytes, code);
    if (!device.is_cpu() && !g_memory_paused.load(std::memory_order_relaxed))
      level(code, static_cast<int64_t>(total), static_cast<int64_t>(reserved));
  }
  c10::reportMemoryUsageToProfiler(address, bytes, total, reserved, device);
}

constexpr const char* kReport = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";

static unsigned long long g_libraries = 0;  // loaded when it was last looked

// Libraries that report and were loaded by now; those that come later are heard from the next call on.
static int hear_devices() {
  g_libraries = libraries_loaded();
  return redirect_imports(kReport, reinterpret_cast<void*>(&c10::reportMemoryUsageToProfiler), reinterpret_cast<void*>(&report));
}

static void forget_devices() {
  redirect_imports(kReport, reinterpret_cast<void*>(&report), reinterpret_cast<void*>(&c10::reportMemoryUsageToProfiler));
}

// ---------------------------------------------------------------- the recording

static bool g_wrapped_cpu = false;

static bool start_memory() {
  g_memory_paused.store(false);
  g_block_number.store(0);
  {
    std::lock_guard<std::mutex> lock(g_level_mutex);
    g_levels.clear();
  }
  g_blocks.store(new Blocks());  // that of the last recording is left: a release may be in it
  bool wrapped = wrap_cpu();
  hear_devices();
  return wrapped;
}

static void stop_memory() {
  if (g_blocks.exchange(nullptr) == nullptr) return;
  unwrap_cpu();
  forget_devices();
}

static void resume_memory() {
  Blocks* all = g_blocks.load();
  if (all == nullptr) return;
  std::vector<Block> gone;
  for (auto& piece : *all) {
    std::lock_guard<std::mutex> lock(piece.mutex);
    for (auto it = piece.blocks.begin(); it != piece.blocks.end();) {
      if (it->second.gone) {
        gone.push_back(it->second);
        it = piece.blocks.erase(it);
      } else {
        ++it;
      }
    }
  }
  {
    std::lock_guard<std::mutex> lock(g_level_mutex);
    g_levels.clear();
  }
  g_memory_paused.store(false);
  for (const Block& b : gone) write_memory(kRelease, b.number, -b.bytes, b.device, kLate);
}

// Locks that another thread of the parent held would be held for ever; what the parent allocated is
// not the child's to count.
static void memory_after_fork() {
  if (g_blocks.load() != nullptr) g_blocks.store(new Blocks());
  new (&g_ids_mutex) std::mutex();
  new (&g_level_mutex) std::mutex();
  g_levels.clear();
}

// ---------------------------------------------------------------- what blocks hold

// Only what is stored in the tensor is read: nothing is dispatched, and a lazy copy stays one.
static const c10::StorageImpl* storage_of(const c10::TensorImpl* t) {
  if (t == nullptr || t == c10::UndefinedTensorImpl::singleton() || t->is_python_dispatch()) return nullptr;
  if (t->key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr,
                                                c10::DispatchKey::NestedTensor, c10::DispatchKey::Functionalize})))
    return nullptr;
  if (!t->has_storage()) return nullptr;
  return t->unsafe_storage().unsafeGetStorageImpl();
}

static void note(const c10::TensorImpl* t, uint32_t word) {
  Blocks* all = g_blocks.load();
  const c10::StorageImpl* storage = all == nullptr ? nullptr : storage_of(t);
  if (storage == nullptr) return;
  const void* address = storage->data();
  if (address == nullptr || storage->device().is_meta() || storage->sym_nbytes().is_heap_allocated()) return;
  uint8_t role = static_cast<uint8_t>(1u << (word - kParameter));
  Block b;
  bool found = false;
  {
    auto& piece = all->of(address);
    std::lock_guard<std::mutex> lock(piece.mutex);
    auto it = piece.blocks.find(address);
    found = it == piece.blocks.end();
    if (found) {
      b.number = g_block_number.fetch_add(1, std::memory_order_relaxed) + 1;
      b.bytes = static_cast<int64_t>(storage->nbytes());
      b.device = code_of(storage->device());
      b.roles = role;
      piece.blocks[address] = b;
    } else {
      if (it->second.roles & role) return;
      it->second.roles |= role;
      b = it->second;
    }
  }
  if (found) write_memory(kFound, b.number, b.bytes, b.device);
  write_memory(word, b.number, b.bytes, b.device);
}

}  // namespace nx
