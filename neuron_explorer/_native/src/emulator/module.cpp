// What Python sees of the emulator.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>

#include "counts.h"
#include "device.h"
#include "kernels.h"

namespace nx {

// The strings of an iterable; false with an exception set.
static bool strings(PyObject* names, std::vector<std::string>* out) {
  PyObject* it = PyObject_GetIter(names);
  if (it == nullptr) return false;
  while (PyObject* item = PyIter_Next(it)) {
    const char* text = PyUnicode_AsUTF8(item);
    if (text != nullptr) out->push_back(text);
    Py_DECREF(item);
    if (text == nullptr) break;
  }
  Py_DECREF(it);
  return PyErr_Occurred() == nullptr;
}

static PyObject* enable(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  PyObject* names;
  int devices, first;
  long long memory;
  if (!PyArg_ParseTuple(args, "OiLi", &names, &devices, &memory, &first)) return nullptr;
  if (devices < 1 || devices > kMaxDevices || memory < 1 || first < 0 || first >= devices) {
    PyErr_SetString(PyExc_ValueError, "1 to 64 devices, each with some memory");
    return nullptr;
  }
  std::vector<std::string> native;
  if (!strings(names, &native)) return nullptr;
  g_settings.devices = devices;
  g_settings.memory = memory;
  g_settings.first = first;
  t_device = static_cast<c10::DeviceIndex>(first);
  register_device();
  register_kernels(native);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

static PyObject* set_device(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  long long index;
  if (!PyArg_ParseTuple(args, "L", &index)) return nullptr;
  check_usable();
  check_index(index);
  t_device = static_cast<c10::DeviceIndex>(index);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

static PyObject* current_device(PyObject*, PyObject*) { return PyLong_FromLong(t_device); }
static PyObject* device_count(PyObject*, PyObject*) { return PyLong_FromLong(g_settings.devices); }
static PyObject* in_bad_fork(PyObject*, PyObject*) { return PyBool_FromLong(g_forked_after_use.load()); }
static PyObject* was_used(PyObject*, PyObject*) { return PyBool_FromLong(g_used.load()); }

static void put(PyObject* d, const char* key, int64_t value) {
  PyObject* v = PyLong_FromLongLong(value);
  PyDict_SetItemString(d, key, v);
  Py_DECREF(v);
}

static PyObject* memory_stats(PyObject*, PyObject* args) {
  long long index;
  if (!PyArg_ParseTuple(args, "L", &index)) return nullptr;
  if (index < 0 || index >= g_settings.devices) {
    PyErr_SetString(PyExc_RuntimeError, "invalid device ordinal");
    return nullptr;
  }
  std::lock_guard<std::mutex> lock(g_memory.mutex);
  const auto& s = g_memory.stats[index];
  PyObject* d = PyDict_New();
  auto stat = [&](const char* name, const c10::CachingAllocator::Stat& v) {
    put(d, (std::string(name) + ".current").c_str(), v.current);
    put(d, (std::string(name) + ".peak").c_str(), v.peak);
    put(d, (std::string(name) + ".allocated").c_str(), v.allocated);
    put(d, (std::string(name) + ".freed").c_str(), v.freed);
  };
  stat("allocated_bytes", s.allocated_bytes[0]);
  stat("reserved_bytes", s.reserved_bytes[0]);
  stat("active_bytes", s.active_bytes[0]);
  put(d, "num_alloc_retries", s.num_alloc_retries);
  put(d, "num_ooms", s.num_ooms);
  put(d, "num_tensor_frees", g_memory.frees[index]);
  put(d, "allocation_requests", g_memory.requests[index]);
  return d;
}

static PyObject* reset_stats(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  long long index;
  int peak;
  if (!PyArg_ParseTuple(args, "Lp", &index, &peak)) return nullptr;
  check_index(index);
  if (peak) g_allocator.resetPeakStats(static_cast<c10::DeviceIndex>(index));
  else g_allocator.resetAccumulatedStats(static_cast<c10::DeviceIndex>(index));
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

static PyObject* fallbacks(PyObject*, PyObject*) {
  PyObject* list = PyList_New(0);
  for (const auto& f : fallback_counts()) {
    PyObject* item = Py_BuildValue("(sKKK)", f.op.c_str(), static_cast<unsigned long long>(f.calls),
                                   static_cast<unsigned long long>(f.to_host), static_cast<unsigned long long>(f.to_device));
    PyList_Append(list, item);
    Py_DECREF(item);
  }
  return list;
}

static PyObject* executed(PyObject*, PyObject*) {
  PyObject* list = PyList_New(0);
  for (const auto& name : executed_ops()) {
    PyObject* item = PyUnicode_FromString(name.c_str());
    PyList_Append(list, item);
    Py_DECREF(item);
  }
  return list;
}

static PyObject* clear(PyObject*, PyObject*) {
  clear_counts();
  Py_RETURN_NONE;
}

static PyObject* artifact_list(PyObject*, PyObject*) {
  PyObject* list = PyList_New(0);
  for (const auto& a : artifacts()) {
    PyObject* item = Py_BuildValue("(sssKO)", a.key.c_str(), a.op.c_str(), a.signature.c_str(),
                                   static_cast<unsigned long long>(a.hits), a.from_disk ? Py_True : Py_False);
    PyList_Append(list, item);
    Py_DECREF(item);
  }
  return list;
}

static PyObject* artifact_clear(PyObject*, PyObject*) {
  clear_artifacts();
  Py_RETURN_NONE;
}

static PyObject* generator(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  long long index;
  if (!PyArg_ParseTuple(args, "L", &index)) return nullptr;
  check_index(index);
  return THPGenerator_Wrap(default_generator(static_cast<c10::DeviceIndex>(index)));
  END_HANDLE_TH_ERRORS
}

static PyObject* set_known(PyObject*, PyObject* names) {
  HANDLE_TH_ERRORS
  std::vector<std::string> keys;
  if (!strings(names, &keys)) return nullptr;
  set_known_artifacts(std::move(keys));
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

static PyObject* show(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  const char *key, *signature, *cache;
  if (!PyArg_ParseTuple(args, "sss", &key, &signature, &cache)) return nullptr;
  show_compilation(key, signature, cache);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

static PyObject* enter(PyObject*, PyObject*) {
  enter_graph();
  Py_RETURN_NONE;
}

static PyObject* leave(PyObject*, PyObject*) {
  leave_graph();
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"default_generator", generator, METH_VARARGS, nullptr},
    {"enable", enable, METH_VARARGS, nullptr},
    {"set_device", set_device, METH_VARARGS, nullptr},
    {"current_device", current_device, METH_NOARGS, nullptr},
    {"device_count", device_count, METH_NOARGS, nullptr},
    {"in_bad_fork", in_bad_fork, METH_NOARGS, nullptr},
    {"was_used", was_used, METH_NOARGS, nullptr},
    {"memory_stats", memory_stats, METH_VARARGS, nullptr},
    {"reset_stats", reset_stats, METH_VARARGS, nullptr},
    {"fallbacks", fallbacks, METH_NOARGS, nullptr},
    {"executed", executed, METH_NOARGS, nullptr},
    {"clear", clear, METH_NOARGS, nullptr},
    {"artifacts", artifact_list, METH_NOARGS, nullptr},
    {"clear_artifacts", artifact_clear, METH_NOARGS, nullptr},
    {"enter_graph", enter, METH_NOARGS, nullptr},
    {"leave_graph", leave, METH_NOARGS, nullptr},
    {"show_compilation", show, METH_VARARGS, nullptr},
    {"set_known_artifacts", set_known, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "nx_emulator", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace nx

PyMODINIT_FUNC PyInit_nx_emulator(void) { return PyModule_Create(&nx::module); }
