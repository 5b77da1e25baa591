// SPDX-License-Identifier: Apache-2.0
#include "operation.hpp"

namespace rondo::python {

void Operation::cancel() const {
    const auto emit = [signal = signal_] { signal->emit(asio::cancellation_type::terminal); };
    if (place_ == Place::background) {
        asio::post(background(), emit);
    } else if (!queue_->was_closed()) {
        emit();
    }
}

void Operation::settle(const py::weakref& weak, const std::function<py::object()>& result) {
    try {
        const py::object future = weak();
        if (future.is_none() || future.attr("done")().cast<bool>())
            return;  // its task was cancelled
        try {
            future.attr("set_result")(result());
        } catch (py::error_already_set& error) {
            future.attr("set_exception")(error.value());
        }
    } catch (py::error_already_set& error) {
        error.discard_as_unraisable("a completion of rondo");
    }
}

void add_operation(py::module_& module) {
    py::class_<Operation>(module, "Operation", "An asynchronous call that is under way.")
        .def("cancel", &Operation::cancel);
}

}  // namespace rondo::python
