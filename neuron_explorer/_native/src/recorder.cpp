// The dispatcher recorder: an observer of every operator on every thread, and its face to Python.
//
// Nothing here keeps a tensor alive, and no lock is taken unless a name, stack, signature or module
// is seen for the first time. The state of a recording is never freed, because an asynchronous event
// may end after it. One translation unit: the path of an event is inlined through these headers.
#include "frames.h"

#include "control.h"

namespace nx {

static PyObject* py_start(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"dir", "stacks", "shapes", "tensors", "use_map", "namer", "chunk_bytes", "role",
                                "memory", "optimizers", "optimizer_call", nullptr};
  const char* directory;
  int stacks = 1, shapes = 1, tensors = 0, map = 1;
  PyObject* namer = nullptr;
  Py_ssize_t window = 1 << 18;
  const char* role = "main";
  int memory = 0;
  PyObject *optimizers = nullptr, *optimizer_call = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|ppppOnspOO", const_cast<char**>(names), &directory, &stacks, &shapes,
                                   &tensors, &map, &namer, &window, &role, &memory, &optimizers, &optimizer_call))
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
  o.memory = memory;
  if (optimizers != nullptr && optimizers != Py_None && optimizer_call != nullptr && PyCode_Check(optimizer_call)) {
    Py_INCREF(optimizers);
    Py_INCREF(optimizer_call);
    o.optimizers = optimizers;
    o.optimizer_call = reinterpret_cast<PyCodeObject*>(optimizer_call);
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
  if (o.memory) g_wrapped_cpu = start_memory();
  Py_RETURN_NONE;
}

static PyObject* py_pause(PyObject*, PyObject*) {
  std::lock_guard<std::mutex> lock(g_control);
  if (g_session.load() != nullptr && !g_paused) {
    drop_callback();
    g_memory_paused.store(true);
    g_paused = true;
  }
  Py_RETURN_NONE;
}

static PyObject* py_resume(PyObject*, PyObject*) {
  std::lock_guard<std::mutex> lock(g_control);
  if (g_session.load() != nullptr && g_paused) {
    g_session.load()->groups.rebase();
    add_callback();
    resume_memory();
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
    stop_memory();
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
  if (t == nullptr || t->in_python || t->compiling) return nullptr;
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

static PyObject* py_compiling(PyObject*, PyObject* on) {
  int value = PyObject_IsTrue(on);
  if (value < 0) return nullptr;
  Session* s = g_session.load();
  ThreadState* t = s == nullptr || s->failed.load() != 0 ? nullptr : state_for(s);
  if (t != nullptr) t->compiling = value != 0;
  Py_RETURN_NONE;
}

// The live modules that events named, for the recorder's own eyes.
static PyObject* py_modules(PyObject*, PyObject*) {
  PyObject* found = PyList_New(0);
  Session* s = g_session.load();
  if (found == nullptr || s == nullptr) return found;
  std::vector<PyObject*> weak;
  for (auto& i : s->tables.instances) {
    Py_INCREF(i.second.weak);
    weak.push_back(i.second.weak);
  }
  for (PyObject* w : weak) {
    PyObject* module = PyObject_CallNoArgs(w);
    if (module != nullptr && module != Py_None) PyList_Append(found, module);
    Py_XDECREF(module);
    Py_DECREF(w);
  }
  PyErr_Clear();
  return found;
}

// What blocks hold: `word` (an index of kWordNames), and TensorImpl addresses of tensors that the caller holds.
static PyObject* py_note(PyObject*, PyObject* args) {
  unsigned word;
  PyObject* tensors;
  if (!PyArg_ParseTuple(args, "IO!", &word, &PyList_Type, &tensors)) return nullptr;
  if (word < kParameter || word >= kWords || g_memory_paused.load()) Py_RETURN_NONE;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tensors); ++i) {
    auto* impl = static_cast<const c10::TensorImpl*>(PyLong_AsVoidPtr(PyList_GET_ITEM(tensors, i)));
    if (impl == nullptr) {
      PyErr_Clear();
      continue;
    }
    note(impl, word);
    if (word == kParameter && impl != c10::UndefinedTensorImpl::singleton()) note(impl->grad().unsafeGetTensorImpl(), kGradient);
  }
  Py_RETURN_NONE;
}

// {"cpu": whether the CPU's allocator is heard, "libraries": entries that were redirected just now}
static PyObject* py_hear(PyObject*, PyObject*) {
  if (g_blocks.load() == nullptr) Py_RETURN_NONE;
  int changed = libraries_loaded() == g_libraries ? 0 : hear_devices();
  return Py_BuildValue("{s:O,s:i}", "cpu", g_wrapped_cpu ? Py_True : Py_False, "libraries", changed);
}

// The last collective that began on this thread, thread << 32 | record; -1 when none.
static PyObject* py_collective(PyObject*, PyObject*) {
  ThreadState* t = t_state;
  Session* s = g_session.load();
  return PyLong_FromLongLong(t == nullptr || s == nullptr || t->generation != s->generation ? -1 : t->collective);
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
    {"compiling", py_compiling, METH_O, nullptr},
    {"modules", py_modules, METH_NOARGS, nullptr},
    {"note", py_note, METH_VARARGS, nullptr},
    {"hear", py_hear, METH_NOARGS, nullptr},
    {"collective", py_collective, METH_NOARGS, nullptr},
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
