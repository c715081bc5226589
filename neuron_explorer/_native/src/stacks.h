// The Python stack and the chain of modules at an event, walked without the GIL; it is taken only
// for a stack or module that is seen for the first time.
#pragma once

#include "state.h"

namespace nx {

struct StackResult {
  uint32_t stack = 0;
  uint32_t module = 0;
  bool cut = false;
  bool tracing = false;
};

constexpr uint32_t kTracingBit = 0x80000000u;
constexpr uint32_t kNoModule = 0xFFFFFFFFu;  // in the cache of a thread: known to be of none

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
    if (result == Py_None) {  // no module of the program's
      Py_DECREF(result);
      continue;
    }
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

// Walks the frames of this thread from `f` outwards. No GIL is held on the fast path. A `quiet` walk
// runs no Python code, so that a module that is new here stays unnamed; without `wait` it takes the GIL
// only where this thread has it, and a stack that is new stays unknown.
static StackResult walk(Session* s, ThreadState* t, RawFrame* f, bool quiet = false, bool wait = true) {
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
  if (quiet && (stack != 0 || (!wait && PyGILState_Check() == 0))) {
    r.tracing = (stack & kTracingBit) != 0;
    r.stack = stack & ~kTracingBit;
    r.module = module == kNoModule ? 0 : module;
    return r;
  }
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
    if (has_module && module == 0 && !quiet && (stack & kTracingBit) == 0) {
      auto it = s->tables.module_chain_ids.find(module_key);
      module = it != s->tables.module_chain_ids.end() ? it->second : intern_modules(s, t, module_key);
      if (g_module_epoch.load() == epoch) t->modules.insert(module_key, module != 0 ? module : kNoModule);
    }
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(gil);
    t->in_python = false;
    if (s->tables.error() != 0) fail(s, s->tables.error());
  }
  r.tracing = (stack & kTracingBit) != 0;
  r.stack = stack & ~kTracingBit;
  r.module = module == kNoModule ? 0 : module;
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

}  // namespace nx
