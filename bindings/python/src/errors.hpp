// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python.hpp"
#include <rondo/error.hpp>
#include <rondo/pin_error.hpp>
#include <rondo/spec.hpp>

#include <string>

namespace rondo::python {

/// Makes `ConnectionClosedError` and puts it into the module.
void add_errors(py::module_& module);

[[noreturn]] void raise(PyObject* type, const std::string& message);
[[noreturn]] void raise_connection_closed(const std::string& message);

/// The errors of the library as exceptions of Python: this is the one place that maps them.
[[noreturn]] void raise(const SpecError& error);
[[noreturn]] void raise(const PinError& error);
[[noreturn]] void raise(const InsertError& error);
[[noreturn]] void raise(const SampleError& error);
[[noreturn]] void raise(const ListenError& error);
[[noreturn]] void raise(const ConnectError& error);
/// `peer` is what a client's messages call it, e.g. "TcpClient for 127.0.0.1:50051".
[[noreturn]] void raise(const SendError& error, const std::string& peer);

}  // namespace rondo::python
