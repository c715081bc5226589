// The optimizer whose step begins, shown to a function of the recorder's own: found, as modules are, in
// the frame that torch itself puts around the step, so that no hook has to be registered.
#pragma once

#include "state.h"

namespace nx {

constexpr char kOptimizerStep[] = "Optimizer.step#";

static void see_optimizer(Session* s, ThreadState* t) {
  PyThreadState* python = t->python != nullptr ? t->python : PyGILState_GetThisThreadState();
  RawFrame* f = python == nullptr ? nullptr : innermost(python);
  for (int depth = 0; f != nullptr && depth < 12 && code_of(f) != s->options.optimizer_call; ++depth) f = outer(f);
  if (f == nullptr || code_of(f) != s->options.optimizer_call) return;
  t->in_python = true;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* arguments = first_local(f);
  if (arguments != nullptr && PyTuple_CheckExact(arguments) && PyTuple_GET_SIZE(arguments) > 0) {
    PyObject* result = PyObject_CallFunctionObjArgs(s->options.optimizers, PyTuple_GET_ITEM(arguments, 0), nullptr);
    Py_XDECREF(result);
    PyErr_Clear();
  }
  PyErr_Restore(type, value, traceback);
  PyGILState_Release(gil);
  t->in_python = false;
}

}  // namespace nx
