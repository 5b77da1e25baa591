// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "held.hpp"
#include "loop.hpp"
#include "python.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/post.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace rondo::python {

/// One asynchronous call: a future of asyncio, and the way to end it early.
///
/// The future gets its result on the loop's thread. It is referred to weakly: the loop owns it, so
/// that a loop which is closed lets go of the tasks that wait, and these of the call.
class Operation {
public:
    /// Where the call's own work runs, which is where cancelling has to happen.
    enum class Place : std::uint8_t { loop, background };

    Operation(const LoopBridge& bridge, const py::object& future, Place place)
        : future_{held(py::weakref{future})}, queue_{bridge.queue()}, place_{place} {}

    /// Asks the call to end; the future then gets whatever came of it. On the loop's thread. Once
    /// the loop is gone, a wait of its own may be gone too: then there is nothing to cancel, and
    /// one that is left passes on what it is woken for.
    void cancel() const;

    /// The completion handler of the call, for a result of type `T`: `convert` makes the future's
    /// result of it, with the GIL held, or raises the future's exception.
    template <typename T, typename Convert>
    [[nodiscard]] auto handler(Convert convert) const {
        auto complete = [future = future_, signal = signal_,
                         convert = std::move(convert)](T result) mutable {
            settle(*future, [&] { return convert(std::move(result)); });
        };
        return asio::bind_cancellation_slot(
            signal_->slot(), asio::bind_executor(LoopExecutor{queue_}, std::move(complete)));
    }

private:
    static void settle(const py::weakref& weak, const std::function<py::object()>& result);

    std::shared_ptr<py::weakref> future_;
    std::shared_ptr<LoopQueue> queue_;
    Place place_;
    std::shared_ptr<asio::cancellation_signal> signal_ =
        std::make_shared<asio::cancellation_signal>();
};

void add_operation(py::module_& module);

}  // namespace rondo::python
