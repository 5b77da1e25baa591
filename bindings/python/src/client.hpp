// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "process.hpp"
#include "python.hpp"
#include "rows.hpp"
#include "tree.hpp"
#include <rondo/blocking_tcp_client.hpp>
#include <rondo/deadline.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace rondo::python {

/// A client and the tree of its samples: the base of `rondo.TcpClient`.
///
/// Methods are called with the GIL held, and release it where they wait, or send a sample of more
/// than 8 KiB. Thread-safe. In a forked child every method raises RuntimeError.
class BaseClient {
public:
    BaseClient(const std::string& host, std::uint16_t port, std::shared_ptr<Tree> tree,
               std::uint32_t max_in_flight, double connect_timeout);
    BaseClient(const BaseClient&) = delete;
    BaseClient& operator=(const BaseClient&) = delete;
    ~BaseClient();

    void send(const py::object& tree, std::optional<double> timeout);
    void send_many(const py::iterable& trees, std::optional<double> timeout);
    void send_batch(const py::object& stacked, std::optional<double> timeout);
    void wait(std::optional<double> timeout);

    /// Returns how many samples were not acknowledged.
    std::uint64_t close(std::optional<double> timeout);

    [[nodiscard]] std::uint64_t in_flight() const { return client().in_flight(); }
    [[nodiscard]] bool was_open() const { return client().was_open(); }
    [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
    [[nodiscard]] std::string spec() const { return tree_->spec().text(); }

private:
    [[nodiscard]] BlockingTcpClient& client() const { return client_.get("TcpClient"); }
    [[nodiscard]] bool is_small() const noexcept;
    void send_rows(std::span<const ArrayBytes> stacked, std::size_t count, Deadline deadline);
    void send_copies(const py::iterable& trees, Deadline deadline);
    [[noreturn]] void fail(const SendError& error) const;
    void say_what_wait_waits_for() const;

    std::string peer_;
    std::shared_ptr<Tree> tree_;
    OfProcess<BlockingTcpClient> client_;
    std::optional<Rows> rows_;  // of the last send_many, for the next; not while one is under way
};

void add_client(py::module_& module);

}  // namespace rondo::python
