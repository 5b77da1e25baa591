// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "loop.hpp"
#include "operation.hpp"
#include "process.hpp"
#include "python.hpp"
#include "tree.hpp"
#include <rondo/tcp_client.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace rondo::python {

/// A client whose calls complete on event loops: the base of `rondo.AsyncTcpClient`.
///
/// Its socket lives on the background thread. Each call that has to wait returns an `Operation`;
/// its future gets None, or an exception. In a forked child every method raises RuntimeError.
class BaseAsyncClient {
public:
    BaseAsyncClient(std::string host, std::uint16_t port, std::shared_ptr<Tree> tree);
    BaseAsyncClient(const BaseAsyncClient&) = delete;
    BaseAsyncClient& operator=(const BaseAsyncClient&) = delete;
    ~BaseAsyncClient() = default;

    [[nodiscard]] Operation connect(const LoopBridge& bridge, const py::object& future,
                                    std::uint32_t max_in_flight, double timeout);

    /// Nothing: it is sent already.
    [[nodiscard]] std::optional<Operation> send(const LoopBridge& bridge, const py::object& future,
                                                const py::object& tree,
                                                std::optional<double> timeout);
    [[nodiscard]] Operation send_batch(const LoopBridge& bridge, const py::object& future,
                                       const py::object& stacked, std::optional<double> timeout);
    [[nodiscard]] Operation send_many(const LoopBridge& bridge, const py::object& future,
                                      const py::iterable& trees, std::optional<double> timeout);
    [[nodiscard]] Operation wait(const LoopBridge& bridge, const py::object& future,
                                 std::optional<double> timeout);
    [[nodiscard]] Operation close(const LoopBridge& bridge, const py::object& future,
                                  std::optional<double> timeout);

    [[nodiscard]] std::uint64_t in_flight() const;
    [[nodiscard]] bool was_open() const;
    [[nodiscard]] std::string spec() const { return tree_->spec().text(); }

private:
    struct Connection;
    struct Sending;

    [[nodiscard]] const std::shared_ptr<TcpClient>& client() const;
    [[nodiscard]] Operation start_sending(const LoopBridge& bridge, const py::object& future,
                                          Sending sending);

    std::string host_;
    std::uint16_t port_;
    std::string name_;
    std::shared_ptr<Tree> tree_;
    OfProcess<std::shared_ptr<TcpClient>> client_{nullptr};
};

void add_async_client(py::module_& module);

}  // namespace rondo::python
