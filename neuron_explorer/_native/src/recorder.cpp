// The dispatcher recorder: an observer of every operator on every thread.
//
// `begin` runs when an event starts and writes its record (all but the end), `finish` writes
// the end. Nothing here keeps a tensor alive, and no lock is taken unless a name, stack,
// signature or module is seen for the first time. The state of a recording is never freed,
// because an asynchronous event may end after it.
#include "frames.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <linux/membarrier.h>
#include <stdio.h>

#include "session.h"
#include "signature.h"

namespace nx {

static Clock g_clock;
static inline uint64_t now_ns() { return g_clock.now(); }

static std::atomic<Session*> g_session{nullptr};
static std::atomic<uint64_t> g_generation{0};
static std::atomic<uint64_t> g_module_epoch{1};
static std::mutex g_control;             // start, stop, fork
static Session* g_forked_from = nullptr;  // in a forked child that has not recorded yet
static std::atomic<bool> g_child_pending{false};
static at::CallbackHandle g_handle = 0;
static const char* g_no_overload = nullptr;  // what overload_name() gives for a name that is no operator's
constexpr uint32_t kSkipBit = 0x80000000u;
static bool g_has_handle = false;
static bool g_paused = false;

static thread_local ThreadState* t_state __attribute__((tls_model("initial-exec"))) = nullptr;

// ---------------------------------------------------------------- contexts

struct Context final : at::ObserverContext {
  ThreadState* thread;
  uint64_t generation;
  uint64_t start;
  uint64_t sequence;
  uint32_t index;
  uint8_t kind;

  static void* operator new(size_t size);
  static void operator delete(void* p);
};

struct FreeContext {
  FreeContext* next;
};
static thread_local FreeContext* t_free __attribute__((tls_model("initial-exec"))) = nullptr;
static thread_local uint32_t t_free_count __attribute__((tls_model("initial-exec"))) = 0;

void* Context::operator new(size_t size) {
  if (t_free != nullptr) {
    void* p = t_free;
    t_free = t_free->next;
    --t_free_count;
    return p;
  }
  return ::malloc(size);
}

void Context::operator delete(void* p) {
  if (t_free_count >= 256) {
    ::free(p);
    return;
  }
  auto* f = static_cast<FreeContext*>(p);
  f->next = t_free;
  t_free = f;
  ++t_free_count;
}

// ---------------------------------------------------------------- failures

static void fail(Session* s, int error) {
  int expected = 0;
  s->failed.compare_exchange_strong(expected, error == 0 ? EIO : error);
  if (!s->failure_printed.exchange(true)) {
    ::fprintf(stderr,
              "neuron-explorer: recording stopped: %s. The program goes on; what was recorded until "
              "now is kept.\n",
              ::strerror(s->failed.load()));
  }
}

// ---------------------------------------------------------------- threads

// The thread's own name; empty where it only carries the program's.
static std::string thread_name(bool main) {
  if (main) return "main thread";
  char name[32] = {0}, program[32] = {0};
  pthread_getname_np(pthread_self(), name, sizeof name);
  FILE* f = ::fopen("/proc/self/comm", "re");
  if (f != nullptr) {
    if (::fgets(program, sizeof program, f) != nullptr) program[::strcspn(program, "\n")] = 0;
    ::fclose(f);
  }
  return ::strcmp(name, program) == 0 ? "" : name;
}

static Session* open_session(const Options& options, const char* role, int* error);

// Nothing in a forked child writes to the parent's files: the child opens its own.
static Session* adopt_child() {
  std::lock_guard<std::mutex> lock(g_control);
  Session* s = g_session.load();
  if (s != nullptr || g_forked_from == nullptr) return s;
  int error = 0;
  Session* child = open_session(g_forked_from->options, "forked", &error);
  g_forked_from = nullptr;
  g_child_pending.store(false);
  if (child != nullptr) g_session.store(child);
  return child;
}

// Gives the files of a thread that ends back, so that many short threads cost no descriptors.
struct ThreadExit {
  bool armed = false;
  ~ThreadExit() {
    while (t_free != nullptr) {
      FreeContext* next = t_free->next;
      ::free(t_free);
      t_free = next;
    }
    t_free_count = 256;  // what is deleted from here on goes to the allocator
    ThreadState* t = t_state;
    t_state = nullptr;
    Session* s = g_session.load();
    if (t == nullptr || s == nullptr || t->generation != s->generation) return;
    std::lock_guard<std::mutex> lock(s->threads_mutex);
    if (g_session.load() != s) return;
    t->events.close();
    if (t->has_tensors) t->tensors.close();
  }
};
static thread_local ThreadExit t_exit;

static ThreadState* attach(Session* s) {
  std::lock_guard<std::mutex> lock(s->threads_mutex);
  if (g_session.load() != s) return nullptr;
  t_exit.armed = true;
  auto* t = new ThreadState();
  t->generation = s->generation;
  t->number = static_cast<uint32_t>(s->threads.size());
  long tid = ::syscall(SYS_gettid);
  uint64_t logical = at::RecordFunction::currentThreadId();
  std::string base = s->process_directory + "/t" + std::to_string(t->number);
  int error = t->events.open(base + ".events", s->options.map, s->options.window);
  if (error == 0 && s->options.tensors) {
    error = t->tensors.open(base + ".tensors", s->options.map, s->options.window);
    t->has_tensors = error == 0;
  }
  if (error == 0) {
    std::lock_guard<std::mutex> tables(s->tables.mutex);
    Entry e(kTableThread);
    e.u32(t->number).i64(tid).u64(logical).text(thread_name(tid == ::getpid()));
    if (!s->tables.write(e)) error = s->tables.error();
  }
  if (error != 0) {
    delete t;
    fail(s, error);
    return nullptr;
  }
  auto* header = static_cast<FileHeader*>(t->events.take(sizeof(FileHeader)));
  memset(header, 0, sizeof *header);
  memcpy(header->magic, "NXEV", 4);
  header->version = 1;
  header->record_size = sizeof(Record);
  header->thread = t->number;
  header->os_thread = tid;
  header->logical_thread = logical;
  t->open.reserve(64);
  // The main thread keeps its Python state for life; threads made in C may come and go with theirs.
  if (tid == ::getpid()) t->python = PyGILState_GetThisThreadState();
  s->threads.push_back(t);
  t_state = t;
  return t;
}

// ---------------------------------------------------------------- lookups

// An operator's schema owns its name, so the address of the name finds the operator. Anything
// else has an empty literal as overload and perhaps a temporary string as name: its text
// decides, and it is not kept by address.
static uint32_t find_name(Session* s, ThreadState* t, const char* name, const at::RecordFunction* fn, uint8_t scope) {
  NameSlot& known = t->by_address[((reinterpret_cast<uintptr_t>(name) >> 4) ^ (reinterpret_cast<uintptr_t>(name) >> 13)) % kNameSlots];
  // A name of a schema that is gone may lie where another lay: the first bytes are compared.
  if (known.name == name && ::memcmp(known.text, name, sizeof known.text) == 0) return known.id;
  const char* overload = fn == nullptr ? g_no_overload : fn->overload_name();
  bool stable = overload != g_no_overload;
  size_t length = ::strlen(name);
  uint64_t key = mix(hash_text(name, length), scope);
  size_t overload_length = ::strlen(overload);
  if (overload_length) key = mix(key, hash_text(overload, overload_length));
  uint32_t id = t->names.find(key);
  if (id == 0) {
    std::string text(name, length);
    if (overload_length) {
      text += '.';
      text.append(overload, overload_length);
    }
    if (text.size() > 4096) text.resize(4096);
    {
      std::lock_guard<std::mutex> lock(s->tables.mutex);
      id = s->tables.name(text, scope);
      if (id == 0) {
        if (s->tables.error()) fail(s, s->tables.error());
        return 0;
      }
      // The skip mark travels in the cached id's top bit.
      if (s->tables.names[id - 1].skip) id |= kSkipBit;
    }
    t->names.insert(key, id);
  }
  if (stable) {
    known.name = name;
    known.id = id;
    ::memcpy(known.text, name, sizeof known.text);
  }
  return id;
}

struct StackResult {
  uint32_t stack = 0;
  uint32_t module = 0;
  bool cut = false;
  bool tracing = false;
};

constexpr uint32_t kTracingBit = 0x80000000u;

static PyObject* module_died(PyObject*, PyObject* weak);
static PyMethodDef module_died_def = {"module_died", module_died, METH_O, nullptr};
static PyObject* g_module_died = nullptr;

static uint32_t intern_modules(Session* s, ThreadState* t, uint64_t key) {
  // Holds the GIL and the tables' mutex is NOT held: the namer runs Python code.
  uint32_t parent_id = 0;
  PyObject* parent = nullptr;
  for (size_t i = t->module_chain.size(); i-- > 0;) {
    PyObject* module = t->module_chain[i];
    uint32_t number;
    auto it = s->tables.instances.find(module);
    if (it == s->tables.instances.end()) {
      PyObject* weak = PyWeakref_NewRef(module, g_module_died);
      if (weak == nullptr) {
        PyErr_Clear();
        return parent_id;
      }
      number = ++s->tables.instance_count;
      s->tables.instances.emplace(module, ModuleInstance{number, weak});
    } else {
      number = it->second.number;
    }
    auto pair = std::make_pair(parent_id, number);
    auto known = s->tables.module_ids.find(pair);
    if (known != s->tables.module_ids.end()) {
      parent_id = known->second;
      parent = module;
      continue;
    }
    std::string path, cls;
    PyObject* result = PyObject_CallFunctionObjArgs(s->options.namer, parent ? parent : Py_None, module, nullptr);
    if (result != nullptr && PyTuple_Check(result) && PyTuple_GET_SIZE(result) == 2) {
      path = Tables::utf8(PyTuple_GET_ITEM(result, 0));
      cls = Tables::utf8(PyTuple_GET_ITEM(result, 1));
    } else {
      PyErr_Clear();
      cls = Py_TYPE(module)->tp_name;
    }
    Py_XDECREF(result);
    // The namer may have let another thread in, which named the same module.
    known = s->tables.module_ids.find(pair);
    if (known != s->tables.module_ids.end()) {
      parent_id = known->second;
      parent = module;
      continue;
    }
    uint32_t id = static_cast<uint32_t>(s->tables.module_ids.size()) + 1;
    {
      std::lock_guard<std::mutex> lock(s->tables.mutex);
      Entry e(kTableModule);
      e.u32(id).u32(parent_id).text(path).text(cls).u32(number);
      if (!s->tables.write(e)) return parent_id;
    }
    s->tables.module_ids.emplace(pair, id);
    parent_id = id;
    parent = module;
  }
  s->tables.module_chain_ids[key] = parent_id;
  return parent_id;
}

static uint32_t intern_stack(Session* s, ThreadState* t, uint64_t key) {
  std::lock_guard<std::mutex> lock(s->tables.mutex);
  auto it = s->tables.stack_ids.find(key);
  if (it != s->tables.stack_ids.end()) return it->second;
  uint32_t parent = 0;
  bool tracing = false;
  for (size_t i = t->codes.size(); i-- > 0;) {
    bool here = false;
    uint32_t code = s->tables.code(t->codes[i], &here);
    if (code == 0) {
      ++s->tables.stacks_capped;
      break;
    }
    int line = PyCode_Addr2Line(t->codes[i], t->offsets[i]);
    // Instructions that the compiler adds (making a cell at the start of a call) have no line.
    if (line <= 0) line = t->codes[i]->co_firstlineno;
    uint32_t id = s->tables.frame(parent, code, line);
    if (id == 0) {
      ++s->tables.stacks_capped;
      break;
    }
    tracing = tracing || here;
    if (here) s->tables.frame_tracing[id - 1] = true;
    parent = id;
  }
  if (parent == 0) return 0;
  uint32_t value = tracing ? parent | kTracingBit : parent;
  s->tables.stack_ids.emplace(key, value);
  return value;
}

// Walks the frames of this thread from `f` outwards. No GIL is held on the fast path.
static StackResult walk(Session* s, ThreadState* t, RawFrame* f) {
  StackResult r;
  uint64_t key = 0x1234567;
  uint64_t module_key = 0x7654321;
  size_t frames = 0;
  const PyCodeObject* module_call = s->options.module_call;
  bool has_module = false;
  for (RawFrame* g = f; g != nullptr; g = outer(g)) {
    if (frames == kMaxFrames) {
      r.cut = true;
      break;
    }
    key = step(key, instruction_of(g));
    ++frames;
    if (code_of(g) == module_call) {
      module_key = step(module_key, reinterpret_cast<uintptr_t>(first_local(g)));
      has_module = true;
    }
  }
  if (__builtin_expect(r.cut, 0)) s->cut_stacks.fetch_add(1, std::memory_order_relaxed);
  key = mix(key, frames);
  module_key = mix(module_key, 1);
  uint32_t stack = t->stacks.find(key);
  uint32_t module = 0;
  uint64_t epoch = g_module_epoch.load(std::memory_order_acquire);
  if (t->module_epoch != epoch) {
    t->modules.clear();
    t->module_epoch = epoch;
  }
  if (has_module) module = t->modules.find(module_key);
  if (stack == 0 || (has_module && module == 0)) {
    t->begin_frames();
    frames = 0;
    for (RawFrame* g = f; g != nullptr && frames < kMaxFrames; g = outer(g), ++frames) {
      t->codes.push_back(code_of(g));
      t->offsets.push_back(byte_offset(g));
      if (code_of(g) == module_call && first_local(g) != nullptr) t->module_chain.push_back(first_local(g));
    }
    t->in_python = true;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (stack == 0) {
      stack = intern_stack(s, t, key);
      if (stack != 0) t->stacks.insert(key, stack);
    }
    if (has_module && module == 0 && (stack & kTracingBit) == 0) {
      auto it = s->tables.module_chain_ids.find(module_key);
      module = it != s->tables.module_chain_ids.end() ? it->second : intern_modules(s, t, module_key);
      if (module != 0 && g_module_epoch.load() == epoch) t->modules.insert(module_key, module);
    }
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(gil);
    t->in_python = false;
    if (s->tables.error() != 0) fail(s, s->tables.error());
  }
  r.tracing = (stack & kTracingBit) != 0;
  r.stack = stack & ~kTracingBit;
  r.module = module;
  return r;
}

static PyObject* module_died(PyObject*, PyObject* weak) {
  Session* s = g_session.load();
  if (s != nullptr) {
    for (auto it = s->tables.instances.begin(); it != s->tables.instances.end(); ++it) {
      if (it->second.weak == weak) {
        Py_DECREF(it->second.weak);
        s->tables.instances.erase(it);
        break;
      }
    }
    s->tables.module_chain_ids.clear();
    g_module_epoch.fetch_add(1);
  }
  Py_RETURN_NONE;
}

static uint32_t find_signature(Session* s, ThreadState* t, const at::RecordFunction& fn, uint32_t name) {
  c10::ArrayRef<const c10::IValue> inputs = fn.inputs();
  bool coarse_name = name < t->coarse_names.size() && t->coarse_names[name];
  uint64_t key = step(coarse_name ? 0x9A : 0x99, name);
  for (const c10::IValue& v : inputs) key = hash_value(key, v, !coarse_name);
  key = mix(key, inputs.size());
  uint32_t id = t->signatures.find(key);
  if (id != 0) return id;
  std::lock_guard<std::mutex> lock(s->tables.mutex);
  bool floats = s->tables.names[name - 1].float_signatures < kManyFloats;
  uint64_t coarse = step(0x9A, name);
  for (const c10::IValue& v : inputs) coarse = hash_value(coarse, v, false);
  coarse = mix(coarse, inputs.size());
  auto it = s->tables.signature_ids.find(key);
  if (it == s->tables.signature_ids.end() && !floats) it = s->tables.signature_ids.find(coarse);
  if (!floats) {
    if (name >= t->coarse_names.size()) t->coarse_names.resize(name + 1);
    t->coarse_names[name] = true;
  }
  if (it != s->tables.signature_ids.end()) {
    t->signatures.insert(key, it->second);
    return it->second;
  }
  if (s->tables.signature_count >= kMaxSignatures) {
    ++s->tables.signatures_capped;
    return 0;
  }
  // A signature that differs from a known one only in its floats counts against the limit.
  if (floats) {
    auto inserted = s->tables.signature_ids.emplace(mix(coarse, 0x9B), 1u);
    if (!inserted.second) ++s->tables.names[name - 1].float_signatures;
  }
  SignatureText text = describe(fn, floats);
  id = ++s->tables.signature_count;
  Entry e(kTableSignature);
  e.u32(id).text(text.shapes).text(text.strides).text(text.dtypes).text(text.arguments).text(text.device);
  if (!s->tables.write(e)) return 0;
  s->tables.signature_ids.emplace(floats ? key : coarse, id);
  t->signatures.insert(key, id);
  return id;
}

static void record_tensors(Session* s, ThreadState* t, const at::RecordFunction& fn, uint32_t index) {
  auto one = [&](const c10::TensorImpl* impl, size_t argument, size_t position) {
    if (impl == c10::UndefinedTensorImpl::singleton() || impl->is_python_dispatch() || !impl->has_storage()) return;
    auto* r = static_cast<TensorRecord*>(t->tensors.take(sizeof(TensorRecord)));
    if (r == nullptr) {
      fail(s, t->tensors.error());
      return;
    }
    r->event = index;
    r->argument = static_cast<uint16_t>(argument);
    r->reserved = static_cast<uint16_t>(position);
    r->version = const_cast<c10::TensorImpl*>(impl)->is_inference()
                     ? ~0ull
                     : const_cast<c10::TensorImpl*>(impl)->version_counter().current_version();
    r->pad = 0;
    r->storage = reinterpret_cast<uint64_t>(impl->unsafe_storage().unsafeGetStorageImpl());
  };
  c10::ArrayRef<const c10::IValue> inputs = fn.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].isTensor()) {
      one(inputs[i].unsafeToTensorImpl(), i, 0);
    } else if (inputs[i].isList()) {
      size_t j = 0;
      for (const c10::IValue& v : inputs[i].toListRef()) {
        if (v.isTensor()) one(v.unsafeToTensorImpl(), i, j);
        ++j;
      }
    }
  }
}

// ---------------------------------------------------------------- events

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
  return std::unique_ptr<at::ObserverContext>(begin(s, t, kind, name, &fn));
}

static void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context != nullptr) finish(static_cast<Context*>(context));
}

// ---------------------------------------------------------------- fork

static void before_fork() {
  g_control.lock();
  Session* s = g_session.load();
  if (s != nullptr) {
    s->threads_mutex.lock();
    s->tables.mutex.lock();
  }
}

static void after_fork_parent() {
  Session* s = g_session.load();
  if (s != nullptr) {
    s->tables.mutex.unlock();
    s->threads_mutex.unlock();
  }
  g_control.unlock();
}

static void after_fork_child() {
  Session* s = g_session.load();
  if (s != nullptr) {
    s->tables.mutex.unlock();
    s->threads_mutex.unlock();
    for (ThreadState* t : s->threads) {
      t->events.abandon();
      t->tensors.abandon();
    }
    s->tables.close();
    g_session.store(nullptr);
    g_forked_from = s;
    g_child_pending.store(s->failed.load() == 0);
  }
  t_state = nullptr;
  g_control.unlock();
}

// ---------------------------------------------------------------- control

static bool write_file(const std::string& path, const std::string& text) {
  std::string temporary = path + ".tmp";
  FILE* f = ::fopen(temporary.c_str(), "we");
  if (f == nullptr) return false;
  bool ok = ::fwrite(text.data(), 1, text.size(), f) == text.size();
  ok = ::fclose(f) == 0 && ok;
  return ok && ::rename(temporary.c_str(), path.c_str()) == 0;
}

static Session* open_session(const Options& options, const char* role, int* error) {
  std::string base = options.directory + "/p" + std::to_string(::getpid());
  std::string directory = base;
  for (int i = 2; ::mkdir(directory.c_str(), 0700) != 0; ++i) {
    if (errno != EEXIST || i > 1000) {
      *error = errno;
      return nullptr;
    }
    directory = base + "-" + std::to_string(i);
  }
  auto* s = new Session();
  s->generation = g_generation.fetch_add(1) + 1;
  s->options = options;
  s->process_directory = directory;
  int e = s->tables.open(directory + "/tables.log");
  char text[256];
  ::snprintf(text, sizeof text,
             "{\"pid\": %d, \"parent_pid\": %d, \"role\": \"%s\", \"start_monotonic_ns\": %llu, \"name\": \"%s\"}\n",
             ::getpid(), ::getppid(), role, static_cast<unsigned long long>(now_ns()), role);
  if (e == 0 && !write_file(directory + "/process.json", text)) e = errno ? errno : EIO;
  if (e != 0) {
    *error = e;
    return nullptr;
  }
  return s;
}

static void add_callback() {
  if (g_no_overload == nullptr) {
    at::RecordFunction plain(at::RecordScope::USER_SCOPE);
    g_no_overload = plain.overload_name();
  }
  Session* s = g_session.load();
  at::RecordFunctionCallback callback(on_start, on_end);
  callback.needsInputs(s->options.shapes || s->options.tensors);
  callback.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                   at::RecordScope::TORCHSCRIPT_FUNCTION, at::RecordScope::USER_SCOPE});
  g_handle = at::addGlobalCallback(callback);
  g_has_handle = true;
}

static void drop_callback() {
  if (g_has_handle) at::removeCallback(g_handle);
  g_has_handle = false;
}

static PyObject* counters(Session* s) {
  uint64_t events = 0, tracing = 0;
  size_t threads;
  {
    std::lock_guard<std::mutex> lock(s->threads_mutex);
    threads = s->threads.size();
    for (ThreadState* t : s->threads) {
      events += t->count;
      tracing += t->tracing_ops;
    }
  }
  int failed = s->failed.load();
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:n,s:z}", "events", events, "tracing_ops", tracing, "dropped",
                       s->dropped.load(), "signatures_capped", s->tables.signatures_capped, "stacks_capped",
                       s->tables.stacks_capped, "stacks_truncated", s->cut_stacks.load(), "late_ends",
                       s->late_ends.load(), "threads", static_cast<Py_ssize_t>(threads), "failed",
                       failed ? ::strerror(failed) : nullptr);
}

static PyObject* py_start(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"dir", "stacks", "shapes", "tensors", "use_map", "namer", "chunk_bytes", "role", nullptr};
  const char* directory;
  int stacks = 1, shapes = 1, tensors = 0, map = 1;
  PyObject* namer = nullptr;
  Py_ssize_t window = 1 << 18;
  const char* role = "main";
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|ppppOns", const_cast<char**>(names), &directory, &stacks, &shapes,
                                   &tensors, &map, &namer, &window, &role))
    return nullptr;
  if (window < 4096 || (window & (window - 1)) != 0) {
    PyErr_SetString(PyExc_ValueError, "chunk_bytes must be a power of two, 4096 or more");
    return nullptr;
  }
  std::lock_guard<std::mutex> lock(g_control);
  if (g_session.load() != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "a recording is active in this process");
    return nullptr;
  }
  PyObject* nn = PyImport_ImportModule("torch.nn");
  if (nn == nullptr) return nullptr;
  PyObject* module_class = PyObject_GetAttrString(nn, "Module");
  PyObject* call = module_class ? PyObject_GetAttrString(module_class, "_wrapped_call_impl") : nullptr;
  PyErr_Clear();
  Options o;
  o.directory = directory;
  o.stacks = stacks;
  o.shapes = shapes;
  o.tensors = tensors;
  o.map = map;
  o.window = static_cast<size_t>(window);
  if (namer != nullptr && namer != Py_None && call != nullptr && PyFunction_Check(call)) {
    Py_INCREF(namer);
    o.namer = namer;
    o.module_call = reinterpret_cast<PyCodeObject*>(PyFunction_GetCode(call));
  }
  Py_XDECREF(call);
  Py_XDECREF(module_class);
  Py_DECREF(nn);
  g_clock.calibrate();
  int error = 0;
  Session* s = open_session(o, role, &error);
  if (s == nullptr) {
    errno = error;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, directory);
  }
  g_child_pending.store(false);
  g_forked_from = nullptr;
  g_module_epoch.fetch_add(1);
  g_paused = false;
  g_session.store(s);
  add_callback();
  Py_RETURN_NONE;
}

static PyObject* py_pause(PyObject*, PyObject*) {
  std::lock_guard<std::mutex> lock(g_control);
  if (g_session.load() != nullptr && !g_paused) {
    drop_callback();
    g_paused = true;
  }
  Py_RETURN_NONE;
}

static PyObject* py_resume(PyObject*, PyObject*) {
  std::lock_guard<std::mutex> lock(g_control);
  if (g_session.load() != nullptr && g_paused) {
    add_callback();
    g_paused = false;
  }
  Py_RETURN_NONE;
}

static PyObject* py_stop(PyObject*, PyObject*) {
  Session* s;
  {
    std::lock_guard<std::mutex> lock(g_control);
    s = g_session.load();
    if (s == nullptr) {
      PyErr_SetString(PyExc_RuntimeError, "no recording is active in this process");
      return nullptr;
    }
    drop_callback();
    g_session.store(nullptr, std::memory_order_seq_cst);
    g_child_pending.store(false);
    g_forked_from = nullptr;
  }
  PyObject* result;
  Py_BEGIN_ALLOW_THREADS
  barrier_on_all_threads();
  // Callbacks that are running see the session end before we drop their mappings.
  std::lock_guard<std::mutex> lock(s->threads_mutex);
  for (ThreadState* t : s->threads) {
    uint64_t deadline = now_ns() + 2000000000ull;
    bool busy;
    while ((busy = t->inside.load(std::memory_order_seq_cst)) && now_ns() < deadline) ::usleep(50);
    if (busy) continue;  // its mapping stays; the file keeps its preallocated tail
    t->events.close();
    if (t->events.error()) fail(s, t->events.error());
    if (t->has_tensors) t->tensors.close();
  }
  s->tables.close();
  Py_END_ALLOW_THREADS
  result = counters(s);
  s->tables.release_python();
  return result;
}

static PyObject* py_stats(PyObject*, PyObject*) {
  Session* s = g_session.load();
  if (s == nullptr) Py_RETURN_NONE;
  return counters(s);
}

static Context* begin_named(uint8_t kind, const char* name) {
  Session* s = g_session.load();
  if (s == nullptr || s->failed.load() != 0) return nullptr;
  ThreadState* t = state_for(s);
  if (t == nullptr || t->in_python) return nullptr;
  Inside inside(t);
  uint32_t id = find_name(s, t, name, nullptr, 255);
  if (id == 0) return nullptr;
  return begin(s, t, kind, id, nullptr);
}

static PyObject* py_begin(PyObject*, PyObject* args) {
  int kind;
  const char* name;
  if (!PyArg_ParseTuple(args, "is", &kind, &name)) return nullptr;
  Context* c = g_paused ? nullptr : begin_named(static_cast<uint8_t>(kind), name);
  return PyLong_FromVoidPtr(c);
}

// Overwrites seq and aux of an event that Python describes itself (a counter's value, ...).
static void describe_event(Context* c, long long seq, unsigned long aux) {
  uint64_t offset = sizeof(FileHeader) + static_cast<uint64_t>(c->index) * sizeof(Record);
  auto* record = static_cast<Record*>(c->thread->events.at(offset));
  int64_t s = seq;
  uint32_t a = static_cast<uint32_t>(aux);
  if (record != nullptr) {
    record->seq = s;
    record->aux = a;
  } else {
    c->thread->events.write_at(offset + offsetof(Record, seq), &s, sizeof s);
    c->thread->events.write_at(offset + offsetof(Record, aux), &a, sizeof a);
  }
}

static PyObject* py_end(PyObject*, PyObject* args) {
  PyObject* token;
  long long seq = -1;
  unsigned long aux = 0;
  if (!PyArg_ParseTuple(args, "O|Lk", &token, &seq, &aux)) return nullptr;
  auto* c = static_cast<Context*>(PyLong_AsVoidPtr(token));
  if (c == nullptr) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  Session* s = g_session.load();
  if (s != nullptr && s->generation == c->generation) {
    finish(c);
    if (c->thread == t_state) describe_event(c, seq, aux);
  }
  delete c;
  Py_RETURN_NONE;
}

static PyObject* py_add(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"kind", "name", "start_ns", "end_ns", "seq", "aux", nullptr};
  int kind;
  const char* name;
  unsigned long long start, end;
  long long seq = -1;
  unsigned long aux = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "isKK|Lk", const_cast<char**>(names), &kind, &name, &start, &end,
                                   &seq, &aux))
    return nullptr;
  Context* c = begin_named(static_cast<uint8_t>(kind), name);
  if (c == nullptr) Py_RETURN_NONE;
  finish(c);
  uint64_t offset = sizeof(FileHeader) + static_cast<uint64_t>(c->index) * sizeof(Record);
  auto* record = static_cast<Record*>(c->thread->events.at(offset));
  if (record != nullptr) {
    // Records lie in the order of their starts: an event of the past begins where the last began.
    void* before = c->index > 0 ? c->thread->events.at(offset - sizeof(Record)) : nullptr;
    uint64_t first = before == nullptr ? start : static_cast<Record*>(before)->start;
    uint64_t from = start < first ? first : start;
    uint64_t to = end < from ? from : end;
    record->start = from;
    record->end = to;
    record->self = to - from;
    c->thread->last_start = from;
  }
  describe_event(c, seq, aux);
  delete c;
  Py_RETURN_NONE;
}

static PyObject* py_now(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(now_ns()); }

// A bare observer that only takes the two times, for the benchmark's comparison.
struct BareContext final : at::ObserverContext {
  uint64_t start;
};
static std::atomic<uint64_t> g_bare_total{0};
static at::CallbackHandle g_bare_handle = 0;
static PyObject* py_bare_start(PyObject*, PyObject*) {
  g_bare_handle = at::addGlobalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
        auto c = std::make_unique<BareContext>();
        c->start = monotonic_ns();
        return c;
      },
      [](const at::RecordFunction&, at::ObserverContext* c) {
        g_bare_total.fetch_add(monotonic_ns() - static_cast<BareContext*>(c)->start, std::memory_order_relaxed);
      }));
  Py_RETURN_NONE;
}
static PyObject* py_bare_stop(PyObject*, PyObject*) {
  at::removeCallback(g_bare_handle);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"start", reinterpret_cast<PyCFunction>(py_start), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"pause", py_pause, METH_NOARGS, nullptr},
    {"resume", py_resume, METH_NOARGS, nullptr},
    {"stop", py_stop, METH_NOARGS, nullptr},
    {"stats", py_stats, METH_NOARGS, nullptr},
    {"begin", py_begin, METH_VARARGS, nullptr},
    {"end", py_end, METH_VARARGS, nullptr},
    {"add", reinterpret_cast<PyCFunction>(py_add), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"now", py_now, METH_NOARGS, nullptr},
    {"bare_start", py_bare_start, METH_NOARGS, nullptr},
    {"bare_stop", py_bare_stop, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "nx_recorder", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace nx

PyMODINIT_FUNC PyInit_nx_recorder(void) {
  PyObject* m = PyModule_Create(&nx::module);
  if (m == nullptr) return nullptr;
  nx::g_clock.open();
  nx::g_module_died = PyCFunction_New(&nx::module_died_def, nullptr);
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
  pthread_atfork(nx::before_fork, nx::after_fork_parent, nx::after_fork_child);
  return m;
}
