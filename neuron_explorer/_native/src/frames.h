// Reading the Python frames of the calling thread, without the GIL.
//
// A thread that is inside a C++ operator cannot run Python code of its own, so its chain of
// frames stands still and may be read without the GIL. The layout differs per Python minor;
// a minor that is not listed here does not compile, and the caller falls back to the
// recorder in Python.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if PY_VERSION_HEX < 0x030A0000 || PY_VERSION_HEX >= 0x030E0000
#error "neuron_explorer: the frame layout of this Python minor is not known"
#endif

#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>
#else
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#endif

#include <cstdint>

namespace nx {

struct Frame {
  PyCodeObject* code;
  // Identifies the instruction: an address inside the code object where there is one.
  uintptr_t instruction;
};

#if PY_VERSION_HEX < 0x030B0000

using RawFrame = PyFrameObject;

inline RawFrame* innermost(PyThreadState* ts) { return ts->frame; }
inline RawFrame* outer(RawFrame* f) { return f->f_back; }
inline PyCodeObject* code_of(RawFrame* f) { return f->f_code; }
inline uintptr_t instruction_of(RawFrame* f) {
  return reinterpret_cast<uintptr_t>(f->f_code) + static_cast<uintptr_t>(f->f_lasti) + 1;
}
inline int byte_offset(RawFrame* f) { return f->f_lasti * static_cast<int>(sizeof(_Py_CODEUNIT)); }
inline PyObject* first_local(RawFrame* f) { return f->f_localsplus[0]; }

#else

using RawFrame = _PyInterpreterFrame;

#if PY_VERSION_HEX >= 0x030D0000
inline PyCodeObject* code_of(RawFrame* f) { return reinterpret_cast<PyCodeObject*>(f->f_executable); }
inline uintptr_t instruction_of(RawFrame* f) { return reinterpret_cast<uintptr_t>(f->instr_ptr); }
inline RawFrame* current(PyThreadState* ts) { return ts->current_frame; }
#elif PY_VERSION_HEX >= 0x030C0000
inline PyCodeObject* code_of(RawFrame* f) { return f->f_code; }
inline uintptr_t instruction_of(RawFrame* f) { return reinterpret_cast<uintptr_t>(f->prev_instr); }
inline RawFrame* current(PyThreadState* ts) { return ts->cframe->current_frame; }
#else
inline PyCodeObject* code_of(RawFrame* f) { return f->f_code; }
inline uintptr_t instruction_of(RawFrame* f) { return reinterpret_cast<uintptr_t>(f->prev_instr); }
inline RawFrame* current(PyThreadState* ts) { return ts->cframe->current_frame; }
#endif

// What a traceback leaves out too: frames of the interpreter's own (entered from C, or made
// for a class's __init__), and frames that have not reached their first traceable instruction.
inline bool is_incomplete(RawFrame* f) {
#if PY_VERSION_HEX >= 0x030C0000
  if (f->owner == FRAME_OWNED_BY_CSTACK) return true;
#endif
  if (f->owner == FRAME_OWNED_BY_GENERATOR) return false;
  PyCodeObject* code = code_of(f);
  return instruction_of(f) < reinterpret_cast<uintptr_t>(_PyCode_CODE(code) + code->_co_firsttraceable);
}

// A caller has always reached its call; only the interpreter's own frames lie between callers.
inline bool is_no_caller(RawFrame* f) {
#if PY_VERSION_HEX >= 0x030D0000
  return is_incomplete(f);
#elif PY_VERSION_HEX >= 0x030C0000
  return f->owner == FRAME_OWNED_BY_CSTACK;
#else
  (void)f;
  return false;
#endif
}

inline RawFrame* innermost(PyThreadState* ts) {
  RawFrame* f = current(ts);
  while (f != nullptr && is_incomplete(f)) f = f->previous;
  return f;
}
inline RawFrame* outer(RawFrame* f) {
  f = f->previous;
  while (f != nullptr && is_no_caller(f)) f = f->previous;
  return f;
}
inline int byte_offset(RawFrame* f) {
  return static_cast<int>(instruction_of(f) - reinterpret_cast<uintptr_t>(_PyCode_CODE(code_of(f))));
}
inline PyObject* first_local(RawFrame* f) { return f->localsplus[0]; }

#endif

}  // namespace nx
