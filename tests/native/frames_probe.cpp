// Walks the frames of the calling thread as the recorder does, without torch, so that the
// frame layouts can be checked on every Python that is at hand.
#include "frames.h"

#include <vector>

static PyObject* walk(PyObject*, PyObject*) {
  struct Seen {
    PyCodeObject* code;
    int offset;
    PyObject* first;
  };
  std::vector<Seen> seen;
  PyThreadState* ts = PyGILState_GetThisThreadState();
  Py_BEGIN_ALLOW_THREADS
  for (nx::RawFrame* f = nx::innermost(ts); f != nullptr; f = nx::outer(f))
    seen.push_back({nx::code_of(f), nx::byte_offset(f), nx::first_local(f)});
  Py_END_ALLOW_THREADS
  PyObject* out = PyList_New(0);
  for (const Seen& s : seen) {
    PyObject* first = s.code->co_argcount > 0 && s.first != nullptr ? s.first : Py_None;
    PyObject* item = Py_BuildValue("(OiO)", s.code, PyCode_Addr2Line(s.code, s.offset), first);
    PyList_Append(out, item);
    Py_DECREF(item);
  }
  return out;
}

static PyMethodDef methods[] = {{"walk", walk, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "frames_probe", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_frames_probe(void) { return PyModule_Create(&module); }
