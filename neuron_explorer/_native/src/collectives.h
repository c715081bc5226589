// Collectives: which process group an operator of torch.distributed is called on, its number in that
// group, and which operator a flight (a backend's own range, on another thread) or a wait belongs to.
//
// An operator gets the group as an object of torch's class registry. Nothing of torch.distributed is
// linked: its methods are virtual, and the one function that is called by name is a weak symbol, which
// builds without it lack. Tensors are known by the address of their data and never held.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <mutex>
#include <string>
#include <unordered_map>

#include "signature.h"

#if __has_include(<torch/csrc/distributed/c10d/ProcessGroup.hpp>)
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#define NX_DISTRIBUTED 1
namespace c10d {
__attribute__((weak)) c10::intrusive_ptr<ProcessGroup> resolve_process_group(const std::string& name);
}
#endif

namespace nx {

constexpr uint32_t kCollectiveBit = 0x40000000u;  // in cached ids of names, as kSkipBit
constexpr const char* kGroupMark = "group:";      // how a process group is written among the arguments

enum class CollectiveName : uint8_t { kNone, kCollective, kWait, kFlight };

inline bool starts(const char* text, const char* prefix) { return ::strncmp(text, prefix, ::strlen(prefix)) == 0; }

inline CollectiveName collective_name(const char* name, uint8_t scope) {
  if (scope == 3) return starts(name, "gloo:") ? CollectiveName::kFlight : CollectiveName::kNone;
  if (scope != 0) return CollectiveName::kNone;
  const char* rest = nullptr;
  for (const char* library : {"c10d::", "_c10d_functional::", "_c10d_functional_autograd::"})
    if (starts(name, library)) rest = name + ::strlen(library);
  if (rest == nullptr) return CollectiveName::kNone;
  if (starts(rest, "wait_tensor")) return CollectiveName::kWait;
  while (*rest == '_') ++rest;
  for (const char* word : {"allreduce", "all_reduce", "allgather", "all_gather", "reduce", "broadcast", "gather", "scatter",
                           "alltoall", "all_to_all", "barrier", "monitored_barrier", "send", "recv"})
    if (starts(rest, word)) return CollectiveName::kCollective;
  return CollectiveName::kNone;
}

#ifdef NX_DISTRIBUTED
inline c10d::ProcessGroup* group_in(const c10::IValue& v) {
  static std::atomic<const void*> known{nullptr};
  if (!v.isObject()) return nullptr;
  const auto& object = v.toObjectRef();
  auto type = object.type();
  if (type.get() != known.load(std::memory_order_relaxed)) {
    if (!type->name() || type->name()->qualifiedName() != "__torch__.torch.classes.c10d.ProcessGroup") return nullptr;
    known.store(type.get(), std::memory_order_relaxed);
  }
  if (object.slots().empty() || !object.getSlot(0).isCapsule()) return nullptr;
  return static_cast<c10d::ProcessGroup*>(object.getSlot(0).toCapsule().get());
}
#endif

// The name of the group that was last hashed on this thread: the text of a signature is written under a
// lock, where a group whose methods are Python must not be asked.
static thread_local std::string t_group_name;

// Hash of the name of the process group that `v` is; 0 when it is none.
inline uint64_t hash_group(const c10::IValue& v) {
#ifdef NX_DISTRIBUTED
  c10d::ProcessGroup* group = group_in(v);
  if (group == nullptr) return 0;
  try {
    t_group_name = group->getGroupName();
  } catch (...) {
    t_group_name.clear();
  }
  return hash_text(t_group_name.data(), t_group_name.size()) | 1;
#else
  (void)v;
  return 0;
#endif
}

// Text of the argument, where it is a process group; else nothing.
inline std::string group_text(const c10::IValue& v) {
#ifdef NX_DISTRIBUTED
  if (group_in(v) != nullptr) return kGroupMark + t_group_name;
#else
  (void)v;
#endif
  return {};
}

// Numbers of the collectives of each group of this process.
class GroupCounters {
 public:
  void rebase() { epoch_.fetch_add(1); }

#ifdef NX_DISTRIBUTED
  // The number of a collective that begins in `group`, counted on from the backend's own number; where it
  // has none, from the recording's first on. `pair`: of two ranks' sends and receives, "" for the others.
  int64_t next(c10d::ProcessGroup* group, const std::string& name, const std::string& pair) {
    std::string key = name + pair;
    uint64_t epoch = epoch_.load();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      Counter& c = counters_[key];
      if (c.group == group && (c.epoch == epoch || !pair.empty() || !c.numbered)) return c.next++;
    }
    int64_t base = -1;
    if (pair.empty()) {
      try {
        base = static_cast<int64_t>(group->getDefaultBackend()->getSequenceNumberForGroup());
      } catch (...) {
      }
    }
    std::lock_guard<std::mutex> lock(mutex_);
    Counter& c = counters_[key];
    c.group = group;
    c.epoch = epoch;
    c.numbered = base >= 0;
    c.next = base >= 0 ? base : 0;
    return c.next++;
  }
#endif

 private:
  struct Counter {
    const void* group = nullptr;
    uint64_t epoch = 0;
    int64_t next = 0;
    bool numbered = false;
  };
  std::mutex mutex_;
  std::unordered_map<std::string, Counter> counters_;
  std::atomic<uint64_t> epoch_{1};
};

// Address of a tensor's data → the collective that was last called with it, (thread << 32 | record).
class InFlight {
 public:
  void put(const void* address, int64_t collective) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (known_.size() >= kMost) known_.clear();
    known_[address] = collective;
  }
  int64_t find(const void* address, bool take) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = known_.find(address);
    if (it == known_.end()) return -1;
    int64_t found = it->second;
    if (take) known_.erase(it);
    return found;
  }

 private:
  static constexpr size_t kMost = 1 << 14;
  std::mutex mutex_;
  std::unordered_map<const void*, int64_t> known_;
};

// Address of the data of a plain tensor, null where it has none. Nothing is dispatched.
inline const void* data_of(const c10::TensorImpl* t) {
  if (t == nullptr || t == c10::UndefinedTensorImpl::singleton() || t->is_python_dispatch() || !t->has_storage() ||
      !has_plain_sizes(t))
    return nullptr;
  const auto* data = static_cast<const char*>(t->unsafe_storage().unsafeGetStorageImpl()->data());
  if (data == nullptr) return nullptr;
  return data + t->storage_offset() * static_cast<int64_t>(t->dtype().itemsize());
}

template <typename F>
void each_data(const c10::IValue& v, F f) {
  if (v.isTensor()) {
    const void* data = data_of(v.unsafeToTensorImpl());
    if (data != nullptr) f(data);
  } else if (v.isList()) {
    for (const c10::IValue& e : v.toListRef()) each_data(e, f);
  }
}

}  // namespace nx
