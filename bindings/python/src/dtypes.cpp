// SPDX-License-Identifier: Apache-2.0
#include "dtypes.hpp"

#include "errors.hpp"

#include <cstdint>
#include <optional>

namespace rondo::python {
namespace {

py::object in_native_order(PyArray_Descr* descr) {
    auto* const object = reinterpret_cast<PyObject*>(descr);
    if (PyArray_ISNBO(descr->byteorder)) return py::reinterpret_borrow<py::object>(object);
    return owned(reinterpret_cast<PyObject*>(PyArray_DescrNewByteorder(descr, NPY_NATIVE)));
}

/// Of packages such as ml_dtypes, and records: rondo only moves what it has no name for.
dtype type_of_others(PyArray_Descr* descr, std::uint32_t size) {
    return dtype::parse(name_of(reinterpret_cast<PyObject*>(descr))).value_or(dtype::opaque(size));
}

/// Nothing: rondo refuses it.
std::optional<dtype> type_of(PyArray_Descr* descr) {
    const auto size = static_cast<std::uint32_t>(PyDataType_ELSIZE(descr));
    if (size == 0 || PyDataType_REFCHK(descr)) return std::nullopt;
    if (PyTypeNum_ISUSERDEF(descr->type_num) || descr->type_num == NPY_VOID) {
        return type_of_others(descr, size);
    }
    const std::string bits = std::to_string(size * 8);
    switch (descr->kind) {
        case 'b':
            return dtype::boolean;
        case 'i':
            return dtype::parse("int" + bits);
        case 'u':
            return dtype::parse("uint" + bits);
        // What is wider than these is as wide as the machine likes, and has no common name.
        case 'f':
            return size <= 8 ? dtype::parse("float" + bits) : dtype::opaque(size);
        case 'c':
            return size <= 16 ? dtype::parse("complex" + bits) : dtype::opaque(size);
        default:
            return std::nullopt;
    }
}

}  // namespace

ElementType element_type_of(PyArray_Descr* descr, const std::string& path) {
    const auto type = type_of(descr);
    if (type) return {in_native_order(descr), *type};
    raise(PyExc_TypeError, "leaf '" + path + "' has dtype " +
                               name_of(reinterpret_cast<PyObject*>(descr)) +
                               ", which cannot be sent: elements must be numbers of a fixed size, "
                               "not objects, strings or dates");
}

std::string name_of(py::handle descr) {
    return py::str(descr);
}

}  // namespace rondo::python
