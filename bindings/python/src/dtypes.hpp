// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python.hpp"
#include <rondo/dtype.hpp>

#include <string>

namespace rondo::python {

/// A dtype of numpy and what rondo calls it.
struct ElementType {
    py::object descr;  ///< in this machine's byte order
    dtype type;
};

/// Raises TypeError for elements that are no plain bytes, or mean nothing elsewhere: objects,
/// strings, dates. `path` is the leaf's, for the message.
[[nodiscard]] ElementType element_type_of(PyArray_Descr* descr, const std::string& path);

/// "float32", ">f8": for messages.
[[nodiscard]] std::string name_of(py::handle descr);

}  // namespace rondo::python
