// SPDX-License-Identifier: Apache-2.0
#include "lease.hpp"

#include "errors.hpp"

#include <optional>

namespace rondo::python {
namespace {

/// The lease that the array itself is made of, not one that it is a view of a view of.
py::object lease_of(py::handle array) {
    if (!PyArray_Check(array.ptr())) return {};
    PyObject* const base = PyArray_BASE(as_array(array));
    if (base == nullptr || !py::isinstance<Lease>(base)) return {};
    return py::reinterpret_borrow<py::object>(base);
}

[[noreturn]] void refuse_release() {
    raise(PyExc_BufferError,
          "the batch cannot be released: a view, or a variable, still refers to one of its arrays "
          "and would see the memory change. Delete those first; or just drop all of them, and "
          "the batch releases itself");
}

}  // namespace

void release(const py::list& leaves) {
    py::object lease;
    py::ssize_t arrays = 0;
    for (const py::handle leaf : leaves) {
        const py::object of_leaf = lease_of(leaf);
        if (!of_leaf) continue;
        if (lease && !lease.is(of_leaf)) refuse_release();
        lease = of_leaf;
        ++arrays;
        // Its place in the tree, and in `leaves`: all else is a view or another name.
        if (Py_REFCNT(leaf.ptr()) != 2) refuse_release();
    }
    if (!lease) return;
    // One reference of each array, and ours. More: an array that is no longer in the tree.
    if (Py_REFCNT(lease.ptr()) != arrays + 1) refuse_release();
    for (const py::handle leaf : leaves) {
        if (lease_of(leaf)) PyArray_DIMS(as_array(leaf))[0] = 0;
    }
    lease.cast<Lease&>().batch().release();
}

std::string Lease::repr() const {
    if (batch_.is_foreign()) return "<rondo.Lease of another process>";
    const Batch& batch = this->batch();
    return "<rondo.Lease of batch " + std::to_string(batch.index()) + ", " +
           std::to_string(batch.size()) + " samples" + (batch.released() ? ", released" : "") + ">";
}

void add_lease(py::module_& module) {
    py::class_<Lease>(module, "Lease",
                      "Holds one batch of the ring; the end of its arrays' base chain.")
        .def_property_readonly("pinned", &Lease::is_pinned)
        .def("__repr__", &Lease::repr);
    module.def("release", &release, py::arg("leaves"));
}

}  // namespace rondo::python
