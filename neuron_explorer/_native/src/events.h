// `begin` runs when an event starts and writes its record, all but the end; `finish` writes the end.
#pragma once

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <linux/membarrier.h>

#include "operators.h"
#include "optimizers.h"
#include "stacks.h"
#include "state.h"
#include "threads.h"

namespace nx {

static void drop_late(ThreadState* t) {
  std::lock_guard<std::mutex> lock(t->late_mutex);
  for (uint32_t index : t->late)
    for (size_t i = t->open.size(); i-- > 0;)
      if (t->open[i].index == index) {
        t->open.erase(t->open.begin() + static_cast<long>(i));
        break;
      }
  t->late.clear();
  t->late_count.store(0);
}

// Marks that a callback of this thread is running. The mark is an ordinary store; `stop`
// makes it visible to itself with a memory barrier on all threads of the process.
struct Inside {
  ThreadState* t;
  explicit Inside(ThreadState* state) : t(state) {
    t->inside.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~Inside() { t->inside.store(false, std::memory_order_release); }
};

static void barrier_on_all_threads() {
  long done = ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  if (done != 0) ::usleep(20000);  // old kernels: longer than any store buffer waits
}

static inline ThreadState* state_for(Session* s) {
  ThreadState* t = t_state;
  if (__builtin_expect(t == nullptr || t->generation != s->generation, 0)) t = attach(s);
  return t;
}

static Context* begin(Session* s, ThreadState* t, uint8_t kind, uint32_t name, const at::RecordFunction* fn) {
  if (__builtin_expect(t->late_count.load(std::memory_order_relaxed) != 0, 0)) drop_late(t);
  uint32_t stack = 0, module = 0;
  uint8_t flags = 0;
  const Open* parent = t->open.empty() ? nullptr : &t->open.back();
  const void* frame = nullptr;
  uintptr_t instruction = 0;
  if (s->options.stacks) {
    PyThreadState* python = t->python != nullptr ? t->python : PyGILState_GetThisThreadState();
    RawFrame* f = python == nullptr ? nullptr : innermost(python);
    if (f != nullptr) {
      frame = f;
      instruction = instruction_of(f);
      // The same instruction of the same frame is still running: this event was dispatched
      // from C++ inside the enclosing one. (A range encloses Python code, so it says nothing.)
      bool nested = parent != nullptr && parent->kind <= kAutograd && parent->frame == frame &&
                    parent->instruction == instruction;
      if (!nested) {
        StackResult r = walk(s, t, f);
        if (r.tracing) {
          ++t->tracing_ops;
          return nullptr;
        }
        stack = r.stack;
        module = r.module;
        flags = kOwnStack | (r.cut ? kStackCut : 0);
      }
    }
  }
  if (parent != nullptr && (flags & kOwnStack) == 0) {
    stack = parent->stack;
    module = parent->module;
  }
  uint32_t signature = 0;
  if (fn != nullptr && kind == kOp && s->options.shapes) signature = find_signature(s, t, *fn, name);
  auto* record = static_cast<Record*>(t->events.take(sizeof(Record)));
  if (__builtin_expect(record == nullptr, 0)) {
    fail(s, t->events.error());
    s->dropped.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  uint32_t index = t->count++;
  uint32_t node = parent == nullptr ? kNone : parent->kind == kAutograd ? parent->index : parent->node;
  auto* context = new Context;
  context->thread = t;
  context->generation = s->generation;
  context->index = index;
  context->kind = kind;
  record->end = 0;
  record->self = 0;
  record->name = name;
  record->stack = stack;
  record->signature = signature;
  record->module = module;
  record->parent = parent == nullptr ? kNone : parent->index;
  record->node = node;
  record->depth = static_cast<uint16_t>(t->open.size() < 0xFFFF ? t->open.size() : 0xFFFF);
  record->flags = flags;
  record->kind = kind;
  if (kind == kAutograd) {
    record->seq = fn->seqNr();
    record->aux = static_cast<uint32_t>(fn->forwardThreadId());
    context->sequence = 0;
  } else {
    // Only an operator that was dispatched to autograd can make nodes; its number is the next
    // node's.
    record->seq = fn != nullptr ? fn->seqNr() : -1;
    context->sequence = static_cast<uint64_t>(record->seq);
    record->aux = 0;
  }
  if (t->has_tensors && fn != nullptr && kind == kOp) record_tensors(s, t, *fn, index);
  uint64_t start = now_ns();
  if (start < t->last_start) start = t->last_start;
  t->last_start = start;
  context->start = start;
  t->open.push_back(Open{index, stack, module, node, 0, frame, instruction, start, kind});
  __atomic_store_n(&record->start, start, __ATOMIC_RELEASE);
  return context;
}

static void finish(Context* c) {
  uint64_t end = now_ns();
  Session* s = g_session.load(std::memory_order_acquire);
  ThreadState* t = c->thread;
  if (s == nullptr || s->generation != c->generation) return;
  uint64_t offset = sizeof(FileHeader) + static_cast<uint64_t>(c->index) * sizeof(Record);
  uint64_t duration = end - c->start;
  if (__builtin_expect(c->flight, 0)) {
    uint64_t times[2] = {end, duration};
    t->events.write_at(offset + offsetof(Record, end), times, sizeof times);
    return;
  }
  if (__builtin_expect(t != t_state, 0)) {
    // Ended on another thread: the owner's list of open events is not ours to change.
    s->late_ends.fetch_add(1, std::memory_order_relaxed);
    uint8_t flags = kOutOfOrder;
    uint64_t times[2] = {end, duration};
    t->events.write_at(offset + offsetof(Record, end), times, sizeof times);
    t->events.write_at(offset + offsetof(Record, flags), &flags, 1);
    std::lock_guard<std::mutex> lock(t->late_mutex);
    t->late.push_back(c->index);
    t->late_count.fetch_add(1);
    return;
  }
  Inside inside(t);
  if (g_session.load(std::memory_order_relaxed) != s) return;
  bool in_order = !t->open.empty() && t->open.back().index == c->index;
  size_t at = t->open.size() - 1;
  if (__builtin_expect(!in_order, 0)) {
    for (at = t->open.size(); at-- > 0;)
      if (t->open[at].index == c->index) break;
    if (at == static_cast<size_t>(-1)) return;
  }
  uint64_t children = t->open[at].children;
  uint64_t self = duration > children ? duration - children : 0;
  uint32_t aux = 0;
  bool counts_nodes = c->kind != kAutograd && c->sequence != ~0ull;
  if (counts_nodes) {
    uint64_t delta = at::sequence_number::peek() - c->sequence;
    aux = delta > 0xFFFFFFFFull ? 0xFFFFFFFFu : static_cast<uint32_t>(delta);
  }
  auto* record = static_cast<Record*>(t->events.at(offset));
  if (__builtin_expect(record != nullptr, 1)) {
    record->self = self;
    if (counts_nodes) record->aux = aux;
    if (!in_order) record->flags |= kOutOfOrder;
    __atomic_store_n(&record->end, end, __ATOMIC_RELEASE);
  } else {
    uint64_t times[2] = {end, self};
    t->events.write_at(offset + offsetof(Record, end), times, sizeof times);
    if (counts_nodes) t->events.write_at(offset + offsetof(Record, aux), &aux, sizeof aux);
  }
  if (in_order) {
    t->open.pop_back();
  } else {
    t->open.erase(t->open.begin() + static_cast<long>(at));
  }
  if (at > 0) t->open[at - 1].children += duration;
}

// The number of a collective in its group, -1 when the group is not known.
static int64_t number_in_group(Session* s, ThreadState* t, const at::RecordFunction& fn) {
  int64_t number = -1;
#ifdef NX_DISTRIBUTED
  t->in_python = true;  // a group may be written in Python
  try {
    c10::intrusive_ptr<c10d::ProcessGroup> resolved;
    c10d::ProcessGroup* group = nullptr;
    c10::ArrayRef<const c10::IValue> inputs = fn.inputs();
    size_t at = 0;
    for (; at < inputs.size() && group == nullptr; ++at) group = group_in(inputs[at]);
    if (group == nullptr && &c10d::resolve_process_group != nullptr && fn.name()[0] == '_' && !inputs.empty()) {
      std::string called;  // the last text is the group's name
      for (const c10::IValue& v : inputs)
        if (v.isString()) called = std::string(v.toStringView());
      resolved = c10d::resolve_process_group(called);
      group = resolved.get();
    }
    if (group != nullptr) {
      bool sends = ::strstr(fn.name(), "::send") != nullptr;
      std::string pair;
      if (sends || ::strstr(fn.name(), "::recv") != nullptr)
        pair = (sends ? "\nsend " : "\nrecv ") + (at < inputs.size() && inputs[at].isInt() ? std::to_string(inputs[at].toInt()) : "");
      number = s->groups.next(group, group->getGroupName(), pair);
    }
  } catch (...) {
  }
  t->in_python = false;
#endif
  return number;
}

// What identifies a collective, a wait or a flight goes into `seq` of its record.
static void describe_collective(Session* s, ThreadState* t, Context* c, const at::RecordFunction& fn, uint8_t scope) {
  CollectiveName what = collective_name(fn.name(), scope);
  int64_t value = -1;
  if (what == CollectiveName::kCollective) {
    int64_t outer = -1;
    for (size_t i = t->open.size() - 1; i-- > 0 && outer < 0;)
      if (t->open[i].collective) outer = t->open[i].index;
    if (outer < 0) {
      outer = c->index;
      t->open.back().collective = true;
      value = number_in_group(s, t, fn);
    }
    t->collective = static_cast<int64_t>(t->number) << 32 | outer;
    for (const c10::IValue& v : fn.inputs())
      each_data(v, [&](const void* data) { s->in_flight.put(data, t->collective); });
  } else {
    if (what == CollectiveName::kFlight) {
      t->open.pop_back();
      c->flight = true;
    }
    for (const c10::IValue& v : fn.inputs())
      each_data(v, [&](const void* data) {
        if (value < 0) value = s->in_flight.find(data, what == CollectiveName::kWait);
      });
  }
  c->sequence = ~0ull;  // not of autograd
  uint64_t offset = sizeof(FileHeader) + static_cast<uint64_t>(c->index) * sizeof(Record);
  auto* record = static_cast<Record*>(t->events.at(offset));
  if (record != nullptr) record->seq = value;
  else t->events.write_at(offset + offsetof(Record, seq), &value, sizeof value);
}

static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  Session* s = g_session.load(std::memory_order_acquire);
  if (__builtin_expect(s == nullptr, 0)) {
    if (!g_child_pending.load()) return nullptr;
    s = adopt_child();
    if (s == nullptr) return nullptr;
  }
  if (s->failed.load(std::memory_order_relaxed) != 0) {
    s->dropped.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  ThreadState* t = state_for(s);
  if (t == nullptr || t->in_python) return nullptr;
  if (t->compiling) {  // its stacks are long and each is new: they are not even walked
    ++t->tracing_ops;
    return nullptr;
  }
  Inside inside(t);
  if (g_session.load(std::memory_order_relaxed) != s) return nullptr;
  uint8_t kind;
  uint8_t scope;
  switch (fn.scope()) {
    case at::RecordScope::FUNCTION:
      kind = kOp;
      scope = 0;
      break;
    case at::RecordScope::BACKWARD_FUNCTION:
      kind = kAutograd;
      scope = 1;
      break;
    case at::RecordScope::USER_SCOPE:
      kind = kRange;
      scope = 3;
      break;
    default:
      kind = kRange;
      scope = 255;
  }
  uint32_t name = find_name(s, t, fn.name(), scope == 0 ? &fn : nullptr, scope);
  if (name == 0 || (name & kSkipBit) != 0) return nullptr;
  if (__builtin_expect((name & kCollectiveBit) != 0, 0)) {
    Context* c = begin(s, t, kind, name & ~kCollectiveBit, &fn);
    if (c != nullptr) describe_collective(s, t, c, fn, scope);
    return std::unique_ptr<at::ObserverContext>(c);
  }
  if (scope == 3 && s->options.optimizers != nullptr && ::strncmp(fn.name(), kOptimizerStep, sizeof kOptimizerStep - 1) == 0)
    see_optimizer(s, t);
  return std::unique_ptr<at::ObserverContext>(begin(s, t, kind, name, &fn));
}

static void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context != nullptr) finish(static_cast<Context*>(context));
}

}  // namespace nx
