// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "loop.hpp"
#include "operation.hpp"
#include "process.hpp"
#include "python.hpp"
#include "tree.hpp"
#include <rondo/deadline.hpp>
#include <rondo/server.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rondo::python {

/// How `sample` looks at the batches that Python holds.
enum class WhenHeld : std::uint8_t {
    raise,  ///< one that this thread took and that the next batch needs: an error
    wait,   ///< somebody else will drop it
};

/// A server and the tree of its samples: the base of `rondo.Server`.
///
/// Methods are called with the GIL held, and release it where they wait, or copy 64 KiB or more.
/// Thread-safe. In a forked child every method raises RuntimeError.
class BaseServer {
public:
    struct Options {
        std::uint64_t batch_size;
        std::uint64_t num_buffers;
        bool pin_host_memory;
        std::vector<std::string> site_directories;
        std::uint32_t io_threads;
    };

    /// `sample_type` is the named tuple (batch, info) that `sample` returns.
    BaseServer(std::shared_ptr<Tree> tree, py::object sample_type, const Options& options);
    BaseServer(const BaseServer&) = delete;
    BaseServer& operator=(const BaseServer&) = delete;
    ~BaseServer();

    /// Binds and listens; returns the real port.
    std::uint16_t listen(const std::string& address, std::uint16_t port);

    /// The next batch, or None once the server is closed and empty.
    [[nodiscard]] py::object sample(std::optional<double> timeout, bool writable, WhenHeld held);

    /// What `sample` would do now, without waiting.
    enum class Now : std::uint8_t {
        sample,
        ended,    ///< closed and empty
        held,     ///< the next batch needs a buffer that somebody holds
        nothing,  ///< not yet
    };
    [[nodiscard]] std::pair<Now, py::object> try_sample(bool writable);

    /// Its future gets True when `try_sample` may have something to say, False at the deadline.
    [[nodiscard]] Operation wait_for_batch(const LoopBridge& bridge, const py::object& future,
                                           std::optional<double> timeout, WhenHeld held);

    void submit(const py::object& tree, std::optional<double> timeout);
    void submit_batch(const py::object& stacked, std::optional<double> timeout);

    void close();
    [[nodiscard]] py::dict metrics() const;
    void reset_histograms();
    [[nodiscard]] std::string spec() const { return tree_->spec().text(); }

private:
    [[nodiscard]] rondo::Server& server() const { return server_.get("Server"); }
    [[nodiscard]] py::object to_python(Batch batch, bool writable) const;
    [[nodiscard]] py::object wait_for_sample(Deadline deadline, bool writable, WhenHeld held);
    void insert(const Arrays& arrays, std::optional<double> timeout);

    std::shared_ptr<Tree> tree_;
    py::object sample_type_;
    OfProcess<rondo::Server> server_;
};

void add_server(py::module_& module);

}  // namespace rondo::python
