// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

#include "waits.hpp"

#include <cerrno>
#include <netdb.h>

namespace rondo::python {
namespace {

// Made once and never freed: an exception may be raised while the interpreter ends.
PyObject* connection_closed_error = nullptr;

/// OSError and its kin show an errno: `[Errno 111] ...`.
[[noreturn]] void raise_os_error(PyObject* type, int code, const std::string& message) {
    PyErr_SetObject(type, py::make_tuple(code, message).ptr());
    throw py::error_already_set{};
}

}  // namespace

void add_errors(py::module_& module) {
    connection_closed_error = PyErr_NewExceptionWithDoc(
        "rondo.ConnectionClosedError",
        "A client was used after it was closed, or after its connection broke; or a server took "
        "no more samples. The message says why, and how many samples were not acknowledged.",
        PyExc_ConnectionError, nullptr);
    module.add_object("ConnectionClosedError", connection_closed_error);
}

void raise(PyObject* type, const std::string& message) {
    PyErr_SetString(type, message.c_str());
    throw py::error_already_set{};
}

void raise_connection_closed(const std::string& message) {
    stay_here_at_exit();
    raise(connection_closed_error, message);
}

void raise(const SpecError& error) {
    raise(PyExc_ValueError, error.message());
}

void raise(const PinError& error) {
    if (error.as<InvalidOptions>() != nullptr) raise(PyExc_ValueError, error.message());
    if (error.as<RingMemory>() != nullptr) raise(PyExc_MemoryError, error.message());
    raise(PyExc_RuntimeError, "pin_host_memory=True cannot be kept: " + error.message());
}

void raise(const InsertError& error) {
    switch (error.code) {
        case InsertError::Code::closed:
            raise_connection_closed(error.message());
        case InsertError::Code::timed_out:
            raise(PyExc_TimeoutError, error.message());
        case InsertError::Code::mismatch:
            raise(PyExc_ValueError, error.message());
        case InsertError::Code::cancelled:
            break;
    }
    raise(PyExc_RuntimeError, error.message());
}

void raise(const SampleError& error) {
    raise(error.code == SampleError::Code::timed_out ? PyExc_TimeoutError : PyExc_RuntimeError,
          error.message());
}

void raise(const ListenError& error) {
    const std::string cause =
        error.code == ListenError::Code::in_use ? "Address already in use: " : "";
    raise(PyExc_RuntimeError, "failed to start transport: " + cause + error.message());
}

void raise(const ConnectError& error) {
    switch (error.code) {
        case ConnectError::Code::resolve: {
            const auto gaierror = py::module_::import("socket").attr("gaierror");
            raise_os_error(gaierror.ptr(), EAI_NONAME, error.message());
        }
        case ConnectError::Code::refused:
            raise_os_error(PyExc_ConnectionRefusedError, ECONNREFUSED, error.message());
        case ConnectError::Code::timed_out:
            raise(PyExc_TimeoutError, error.message());
        case ConnectError::Code::cut_off:
            raise(PyExc_ConnectionError, error.message());
        case ConnectError::Code::spec_mismatch:
            raise(PyExc_ValueError, "Server spec mismatch: " + error.message());
        case ConnectError::Code::protocol:
        case ConnectError::Code::spec_unsuited:
        case ConnectError::Code::invalid_option:
            raise(PyExc_ValueError, error.message());
        case ConnectError::Code::cancelled:
        case ConnectError::Code::system:
            break;
    }
    raise(PyExc_OSError, error.message());
}

void raise(const SendError& error, const std::string& peer) {
    const std::string message = peer + ": " + error.message();
    switch (error.code) {
        case SendError::Code::connection_closed:
            raise_connection_closed(message);
        case SendError::Code::timed_out:
            raise(PyExc_TimeoutError, message);
        case SendError::Code::mismatch:
            raise(PyExc_ValueError, message);
        case SendError::Code::cancelled:
            break;
    }
    raise(PyExc_RuntimeError, message);
}

}  // namespace rondo::python
