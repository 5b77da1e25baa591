// SPDX-License-Identifier: Apache-2.0
// pybind11 and numpy's C interface, for every file of the extension.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

// One table of numpy's functions for all files; module.cpp fills it.
#define PY_ARRAY_UNIQUE_SYMBOL rondo_numpy_api
#ifndef RONDO_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_1_API_VERSION
#include <numpy/arrayobject.h>

namespace rondo::python {

namespace py = pybind11;

inline PyArrayObject* as_array(py::handle object) noexcept {
    return reinterpret_cast<PyArrayObject*>(object.ptr());
}

/// What a C function of Python returned: owned, or the error it set thrown.
inline py::object owned(PyObject* result) {
    if (result == nullptr) throw py::error_already_set{};
    return py::reinterpret_steal<py::object>(result);
}

}  // namespace rondo::python
