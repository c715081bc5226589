// Python's view of the reader of Chrome JSON: Reader and Nest. Depends on nothing but Python's C API.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <new>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "distinct.h"
#include "nest.h"
#include "stream.h"

namespace {

struct ReaderObject {
  PyObject_HEAD
  chrome::Stream* stream;
  size_t told;  // texts that Python has
  bool busy;
};

struct NestObject {
  PyObject_HEAD
  chrome::Nest* nest;
};

PyObject* bytes_of(const void* data, size_t size) {
  return PyBytes_FromStringAndSize(static_cast<const char*>(data), static_cast<Py_ssize_t>(size));
}

// Reader(keys: {name: (is_text, slot)}, max_text_bytes)
int reader_init(PyObject* self, PyObject* args, PyObject*) {
  auto* reader = reinterpret_cast<ReaderObject*>(self);
  PyObject* keys;
  long long max_bytes;
  if (!PyArg_ParseTuple(args, "O!L", &PyDict_Type, &keys, &max_bytes)) return -1;
  delete reader->stream;
  reader->stream = new (std::nothrow) chrome::Stream();
  if (!reader->stream) {
    PyErr_NoMemory();
    return -1;
  }
  reader->stream->events.texts.max_bytes = max_bytes;
  reader->told = 1;
  reader->busy = false;
  PyObject *name, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(keys, &position, &name, &value)) {
    int is_text, slot;
    const char* text = PyUnicode_AsUTF8(name);
    if (!text || !PyArg_ParseTuple(value, "pi", &is_text, &slot)) return -1;
    if (slot < 0 || slot >= (is_text ? chrome::kTexts : chrome::kInts)) {
      PyErr_SetString(PyExc_ValueError, "no such slot");
      return -1;
    }
    reader->stream->events.keys[text] = {is_text != 0, slot};
  }
  return 0;
}

void reader_dealloc(PyObject* self) {
  delete reinterpret_cast<ReaderObject*>(self)->stream;
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

// feed(data, last, least=0) -> bytearray: the records of the events that have ended; fewer than `least` are kept
PyObject* reader_feed(PyObject* self, PyObject* args) {
  auto* reader = reinterpret_cast<ReaderObject*>(self);
  Py_buffer data;
  int last;
  Py_ssize_t least = 0;
  if (!PyArg_ParseTuple(args, "y*p|n", &data, &last, &least)) return nullptr;
  if (reader->busy || !reader->stream) {
    PyBuffer_Release(&data);
    PyErr_SetString(PyExc_RuntimeError, "this reader is in use");
    return nullptr;
  }
  reader->busy = true;
  bool failed = false;
  Py_BEGIN_ALLOW_THREADS;
  try {
    reader->stream->feed(static_cast<const char*>(data.buf), static_cast<size_t>(data.len), last != 0);
  } catch (const std::bad_alloc&) {
    failed = true;
  }
  Py_END_ALLOW_THREADS;
  reader->busy = false;
  PyBuffer_Release(&data);
  if (failed) return PyErr_NoMemory();
  auto& records = reader->stream->records;
  // Written to by Python, so that nobody has to copy them again.
  bool enough = last || static_cast<Py_ssize_t>(records.size()) >= least;
  size_t size = enough ? records.size() * sizeof(chrome::Record) : 0;
  PyObject* result = PyByteArray_FromStringAndSize(reinterpret_cast<const char*>(records.data()),
                                                   static_cast<Py_ssize_t>(size));
  if (result && enough) records.clear();
  return result;
}

// texts() -> list[bytes]: those that are new since the last call, in order of their numbers
PyObject* reader_texts(PyObject* self, PyObject*) {
  auto* reader = reinterpret_cast<ReaderObject*>(self);
  auto& texts = reader->stream->events.texts;
  size_t from = reader->told, size = texts.size();
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(size - from));
  if (!list) return nullptr;
  for (size_t i = from; i < size; ++i) {
    PyObject* text = bytes_of(texts.text(i).data(), texts.text(i).size());
    if (!text) {
      Py_DECREF(list);
      return nullptr;
    }
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i - from), text);
  }
  reader->told = size;
  return list;
}

// header() -> list[(key, json)]: values of the document beside the events, so far
PyObject* reader_header(PyObject* self, PyObject*) {
  auto& header = reinterpret_cast<ReaderObject*>(self)->stream->header;
  PyObject* list = PyList_New(0);
  if (!list) return nullptr;
  for (const auto& [key, value] : header) {
    PyObject* pair = Py_BuildValue("(y#y#)", key.data(), static_cast<Py_ssize_t>(key.size()), value.data(),
                                   static_cast<Py_ssize_t>(value.size()));
    if (!pair || PyList_Append(list, pair) < 0) {
      Py_XDECREF(pair);
      Py_DECREF(list);
      return nullptr;
    }
    Py_DECREF(pair);
  }
  return list;
}

// faults() -> list[(count, byte offset of the first)], in the order of the enumeration Fault
PyObject* reader_faults(PyObject* self, PyObject*) {
  auto& faults = reinterpret_cast<ReaderObject*>(self)->stream->faults;
  PyObject* list = PyList_New(chrome::kFaults);
  if (!list) return nullptr;
  for (int i = 0; i < chrome::kFaults; ++i) {
    PyObject* pair = Py_BuildValue("(LL)", static_cast<long long>(faults.count[i]),
                                   static_cast<long long>(faults.first[i]));
    if (!pair) {
      Py_DECREF(list);
      return nullptr;
    }
    PyList_SET_ITEM(list, i, pair);
  }
  return list;
}

// state() -> (document closed, texts refused)
PyObject* reader_state(PyObject* self, PyObject*) {
  auto* stream = reinterpret_cast<ReaderObject*>(self)->stream;
  return Py_BuildValue("(OL)", stream->complete ? Py_True : Py_False,
                       static_cast<long long>(stream->events.texts.refused));
}

PyMethodDef reader_methods[] = {
    {"feed", reader_feed, METH_VARARGS, nullptr},
    {"texts", reader_texts, METH_NOARGS, nullptr},
    {"header", reader_header, METH_NOARGS, nullptr},
    {"faults", reader_faults, METH_NOARGS, nullptr},
    {"state", reader_state, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

int nest_init(PyObject* self, PyObject* args, PyObject*) {
  auto* object = reinterpret_cast<NestObject*>(self);
  long long max_nodes;
  if (!PyArg_ParseTuple(args, "L", &max_nodes)) return -1;
  delete object->nest;
  object->nest = new (std::nothrow) chrome::Nest();
  if (!object->nest) {
    PyErr_NoMemory();
    return -1;
  }
  object->nest->max_nodes = static_cast<size_t>(std::max(1LL, std::min(max_nodes, 1LL << 30)));
  return 0;
}

void nest_dealloc(PyObject* self) {
  delete reinterpret_cast<NestObject*>(self)->nest;
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* late_of(chrome::Nest* nest) {
  return Py_BuildValue("(NN)", bytes_of(nest->late_row.data(), nest->late_row.size() * 8),
                       bytes_of(nest->late_self.data(), nest->late_self.size() * 8));
}

// add(lane i32, start i64, duration i64, kind u8, name i32, out parent i64, depth i16, self i64, stack i32)
// -> (rows, time of children): earlier rows from whose self time this is to be taken
PyObject* nest_add(PyObject* self, PyObject* args) {
  auto* nest = reinterpret_cast<NestObject*>(self)->nest;
  Py_buffer b[9];
  if (!PyArg_ParseTuple(args, "y*y*y*y*y*w*w*w*w*", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6], &b[7], &b[8])) {
    return nullptr;
  }
  constexpr Py_ssize_t sizes[9] = {4, 8, 8, 1, 4, 8, 2, 8, 4};
  Py_ssize_t count = b[3].len;
  bool fits = true;
  for (int i = 0; i < 9; ++i) fits = fits && b[i].len == count * sizes[i];
  for (Py_ssize_t i = 0; fits && i < count; ++i) {
    int32_t lane = static_cast<const int32_t*>(b[0].buf)[i];
    fits = lane >= 0 && lane < (1 << 24);
  }
  bool failed = false;
  if (fits) {
    Py_BEGIN_ALLOW_THREADS;
    try {
      nest->add(static_cast<size_t>(count), static_cast<const int32_t*>(b[0].buf),
                static_cast<const int64_t*>(b[1].buf), static_cast<const int64_t*>(b[2].buf),
                static_cast<const uint8_t*>(b[3].buf), static_cast<const int32_t*>(b[4].buf),
                static_cast<int64_t*>(b[5].buf), static_cast<int16_t*>(b[6].buf), static_cast<int64_t*>(b[7].buf),
                static_cast<int32_t*>(b[8].buf));
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    Py_END_ALLOW_THREADS;
  }
  for (Py_buffer& buffer : b) PyBuffer_Release(&buffer);
  if (failed) return PyErr_NoMemory();
  if (!fits) {
    PyErr_SetString(PyExc_ValueError, "arrays of unequal length, or a lane out of range");
    return nullptr;
  }
  return late_of(nest);
}

PyObject* nest_finish(PyObject* self, PyObject*) {
  auto* nest = reinterpret_cast<NestObject*>(self)->nest;
  nest->finish();
  return late_of(nest);
}

// nodes() -> (parent i32, name i32): the calling-context tree, node 0 is the root
PyObject* nest_nodes(PyObject* self, PyObject*) {
  auto* nest = reinterpret_cast<NestObject*>(self)->nest;
  return Py_BuildValue("(NN)", bytes_of(nest->node_parent.data(), nest->node_parent.size() * 4),
                       bytes_of(nest->node_name.data(), nest->node_name.size() * 4));
}

PyObject* nest_counts(PyObject* self, PyObject*) {
  auto* nest = reinterpret_cast<NestObject*>(self)->nest;
  return Py_BuildValue("(LL)", static_cast<long long>(nest->crossing), static_cast<long long>(nest->refused));
}

PyMethodDef nest_methods[] = {
    {"add", nest_add, METH_VARARGS, nullptr},
    {"finish", nest_finish, METH_NOARGS, nullptr},
    {"nodes", nest_nodes, METH_NOARGS, nullptr},
    {"counts", nest_counts, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// distinct(keys i64, out where i64) -> bytes (i64): where each distinct key appears first
PyObject* distinct_keys(PyObject*, PyObject* args) {
  Py_buffer keys, where;
  if (!PyArg_ParseTuple(args, "y*w*", &keys, &where)) return nullptr;
  PyObject* result = nullptr;
  if (keys.len != where.len || keys.len % 8) {
    PyErr_SetString(PyExc_ValueError, "arrays of unequal length");
  } else {
    try {
      auto first = chrome::distinct(static_cast<const int64_t*>(keys.buf), static_cast<size_t>(keys.len) / 8,
                                    static_cast<int64_t*>(where.buf));
      result = bytes_of(first.data(), first.size() * 8);
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    }
  }
  PyBuffer_Release(&keys);
  PyBuffer_Release(&where);
  return result;
}

// trim(): hand free memory back to the system, where the allocator can
PyObject* trim(PyObject*, PyObject*) {
#ifdef __GLIBC__
  Py_BEGIN_ALLOW_THREADS;
  malloc_trim(0);
  Py_END_ALLOW_THREADS;
#endif
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"trim", trim, METH_NOARGS, nullptr},
    {"distinct", distinct_keys, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot reader_slots[] = {
    {Py_tp_init, reinterpret_cast<void*>(reader_init)},
    {Py_tp_dealloc, reinterpret_cast<void*>(reader_dealloc)},
    {Py_tp_methods, reader_methods},
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {0, nullptr},
};
PyType_Spec reader_spec = {"nx_chrome.Reader", sizeof(ReaderObject), 0, Py_TPFLAGS_DEFAULT, reader_slots};

PyType_Slot nest_slots[] = {
    {Py_tp_init, reinterpret_cast<void*>(nest_init)},
    {Py_tp_dealloc, reinterpret_cast<void*>(nest_dealloc)},
    {Py_tp_methods, nest_methods},
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {0, nullptr},
};
PyType_Spec nest_spec = {"nx_chrome.Nest", sizeof(NestObject), 0, Py_TPFLAGS_DEFAULT, nest_slots};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "nx_chrome", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_nx_chrome() {
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  PyObject* reader = PyType_FromSpec(&reader_spec);
  PyObject* nest = PyType_FromSpec(&nest_spec);
  if (!reader || !nest || PyModule_AddObject(module, "Reader", reader) < 0 ||
      PyModule_AddObject(module, "Nest", nest) < 0 ||
      PyModule_AddIntConstant(module, "RECORD_BYTES", sizeof(chrome::Record)) < 0) {
    Py_XDECREF(reader);
    Py_XDECREF(nest);
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
