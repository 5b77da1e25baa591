// SPDX-License-Identifier: Apache-2.0
#include "leaf.hpp"

#include "errors.hpp"

#include <algorithm>
#include <array>

namespace rondo::python {
namespace {

std::span<const npy_intp> shape_of(PyArrayObject* array) {
    return {PyArray_DIMS(array), static_cast<std::size_t>(PyArray_NDIM(array))};
}

std::string text_of(std::span<const npy_intp> shape) {
    std::string text;
    for (const npy_intp dim : shape) text += (text.empty() ? "" : ",") + std::to_string(dim);
    return "[" + text + "]";
}

/// Whether the elements lie in the same order whichever of the two shapes is theirs for certain.
bool same_but_for_ones(std::span<const npy_intp> a, std::span<const npy_intp> b) {
    auto i = a.begin();
    auto j = b.begin();
    for (;;) {
        i = std::find_if(i, a.end(), [](npy_intp dim) { return dim != 1; });
        j = std::find_if(j, b.end(), [](npy_intp dim) { return dim != 1; });
        if (i == a.end() || j == b.end()) return i == a.end() && j == b.end();
        if (*i++ != *j++) return false;
    }
}

bool same_elements(PyArrayObject* array, const py::object& descr) {
    auto* const wanted = reinterpret_cast<PyArray_Descr*>(descr.ptr());
    PyArray_Descr* const got = PyArray_DESCR(array);
    if (got == wanted) return true;
    if (PyArray_EquivTypes(got, wanted) != 0) return true;
    if (PyArray_ISNBO(got->byteorder)) return false;
    const auto swapped =
        owned(reinterpret_cast<PyObject*>(PyArray_DescrNewByteorder(got, NPY_NATIVE)));
    return PyArray_EquivTypes(reinterpret_cast<PyArray_Descr*>(swapped.ptr()), wanted) != 0;
}

}  // namespace

Leaf::Leaf(std::string path, PyArrayObject* example)
    : path_{std::move(path)},
      element_{element_type_of(PyArray_DESCR(example), path_)},
      shape_{shape_of(example).begin(), shape_of(example).end()} {}

ArraySpec Leaf::spec() const {
    return {path_, element_.type, {shape_.begin(), shape_.end()}};
}

py::object Leaf::take(py::object value, std::optional<Stacked> stacked) const {
    if (!PyArray_Check(value.ptr())) {
        if (!py::hasattr(py::type::of(value), "__array__")) refuse_type(value);
        value = owned(PyArray_FROM_O(value.ptr()));
    }
    PyArrayObject* const array = as_array(value);
    if (!PyArray_CheckExact(array)) refuse_mask(value);
    if (!same_elements(array, element_.descr) || !has_shape(array, stacked)) {
        refuse_array(array, stacked);
    }
    if (PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISNBO(PyArray_DESCR(array)->byteorder)) {
        return value;
    }
    Py_INCREF(element_.descr.ptr());  // stolen by the next call
    return owned(PyArray_FromArray(array, reinterpret_cast<PyArray_Descr*>(element_.descr.ptr()),
                                   NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_NOTSWAPPED));
}

bool Leaf::has_shape(PyArrayObject* array, std::optional<Stacked> stacked) const {
    std::span<const npy_intp> shape = shape_of(array);
    if (stacked) {
        if (shape.empty() || shape[0] != stacked->samples) return false;
        shape = shape.subspan(1);
    }
    return std::ranges::equal(shape, shape_) || same_but_for_ones(shape, shape_);
}

std::string Leaf::expected(std::optional<Stacked> stacked) const {
    std::vector<npy_intp> shape = shape_;
    if (stacked) shape.insert(shape.begin(), stacked->samples);
    return name_of(element_.descr) + text_of(shape);
}

void Leaf::refuse_type(const py::object& value) const {
    const std::string type = py::str(py::type::of(value).attr("__name__"));
    raise(PyExc_TypeError,
          "leaf '" + path_ + "' is a " + type + ", not a numpy array: expected " + expected({}) +
              "; convert it with numpy.asarray(value, dtype=" + name_of(element_.descr) + ")");
}

void Leaf::refuse_mask(const py::object& value) const {
    if (!py::isinstance(value, py::module_::import("numpy.ma").attr("MaskedArray"))) return;
    raise(PyExc_TypeError, "leaf '" + path_ +
                               "' is a masked array, whose mask would not arrive: send "
                               "value.filled(), or value.data and value.mask as two leaves");
}

void Leaf::refuse_array(PyArrayObject* array, std::optional<Stacked> stacked) const {
    const std::string got =
        name_of(reinterpret_cast<PyObject*>(PyArray_DESCR(array))) + text_of(shape_of(array));
    throw LeafMismatch{"leaf '" + path_ + "' is " + got + ", expected " + expected(stacked)};
}

py::object Leaf::view(std::span<const std::byte> memory, std::size_t samples, py::handle base,
                      bool writable) const {
    std::array<npy_intp, NPY_MAXDIMS + 1> dims{static_cast<npy_intp>(samples)};
    std::ranges::copy(shape_, dims.begin() + 1);
    Py_INCREF(element_.descr.ptr());  // stolen by the next call
    auto array = owned(PyArray_NewFromDescr(
        &PyArray_Type, reinterpret_cast<PyArray_Descr*>(element_.descr.ptr()),
        static_cast<int>(shape_.size()) + 1, dims.data(), nullptr,
        const_cast<std::byte*>(memory.data()),  // NOLINT(*-const-cast): numpy takes no other
        writable ? NPY_ARRAY_WRITEABLE : 0, nullptr));
    base.inc_ref();  // stolen by the next call
    if (PyArray_SetBaseObject(as_array(array), base.ptr()) != 0) throw py::error_already_set{};
    return array;
}

}  // namespace rondo::python
