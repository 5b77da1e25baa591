// SPDX-License-Identifier: Apache-2.0
#include "async_client.hpp"

#include "errors.hpp"
#include "rows.hpp"
#include "waits.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>
#include <vector>

namespace rondo::python {
namespace {

using Sent = tl::expected<void, SendError>;

constexpr std::uint64_t small_payload = 8'192;

// The coroutines of the calls. They leave their result in what the handler shares with them: it
// completes on another thread, and `co_spawn` would want a default for each result's type.

asio::awaitable<void> wait_for_acks(std::shared_ptr<TcpClient> client, Deadline deadline,
                                    std::shared_ptr<Sent> result) {
    auto waiting = client->wait(deadline);
    *result = co_await std::move(waiting);
}

asio::awaitable<void> close_client(std::shared_ptr<TcpClient> client, Deadline deadline,
                                   std::shared_ptr<std::uint64_t> unacknowledged) {
    auto closing = client->close(deadline);
    *unacknowledged = co_await std::move(closing);
}

}  // namespace

/// A connection being made, and what came of it.
struct BaseAsyncClient::Connection {
    std::string host;
    std::uint16_t port;
    SampleSpec spec;
    TcpClientOptions options;
    std::shared_ptr<TcpClient> client{};
    std::optional<ConnectError> error{};

    static asio::awaitable<void> run(std::shared_ptr<Connection> self) {
        auto connecting = TcpClient::connect(self->host, self->port, self->spec, self->options);
        auto connected = co_await std::move(connecting);
        if (connected) {
            self->client = std::make_shared<TcpClient>(std::move(*connected));
        } else {
            self->error = std::move(connected).error();
        }
    }
};

/// Samples on their way, the memory that they lie in, and what came of it.
struct BaseAsyncClient::Sending {
    std::shared_ptr<TcpClient> client;
    std::shared_ptr<const void> owner;  // of the memory
    std::vector<ArrayBytes> stacked;
    std::size_t count;
    Deadline deadline;
    Sent result{};

    static asio::awaitable<void> run(std::shared_ptr<Sending> self) {
        auto sending = self->client->send_many(self->stacked, self->count, self->deadline);
        self->result = co_await std::move(sending);
    }
};

BaseAsyncClient::BaseAsyncClient(std::string host, std::uint16_t port, std::shared_ptr<Tree> tree)
    : host_{std::move(host)},
      port_{port},
      name_{"AsyncTcpClient for " + host_ + ":" + std::to_string(port)},
      tree_{std::move(tree)} {}

const std::shared_ptr<TcpClient>& BaseAsyncClient::client() const {
    const auto& client = client_.get("AsyncTcpClient");
    if (client == nullptr) raise(PyExc_RuntimeError, name_ + " is not connected yet");
    return client;
}

Operation BaseAsyncClient::connect(const LoopBridge& bridge, const py::object& future,
                                   std::uint32_t max_in_flight, double timeout) {
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::duration<double>{timeout});
    auto connection = std::make_shared<Connection>(
        Connection{host_,
                   port_,
                   tree_->spec(),
                   {.max_in_flight = max_in_flight, .connect_timeout = patience}});
    const Operation operation{bridge, future, Operation::Place::background};
    // The client outlives the call: whoever awaits it holds it.
    auto handler = operation.handler<std::exception_ptr>(
        [this, connection](std::exception_ptr /*none: it only waits*/) -> py::object {
            if (connection->error) raise(*connection->error);
            client_.get("AsyncTcpClient") = std::move(connection->client);
            return py::none();
        });
    asio::co_spawn(background(), Connection::run(std::move(connection)), std::move(handler));
    return operation;
}

std::optional<Operation> BaseAsyncClient::send(const LoopBridge& bridge, const py::object& future,
                                               const py::object& tree,
                                               std::optional<double> timeout) {
    const auto& client = this->client();
    auto arrays = tree_->take(tree);
    if (tree_->spec().payload_bytes() <= small_payload) {
        const auto sent = client->try_send(arrays.bytes());
        if (!sent) raise(sent.error(), name_);
        if (*sent) return std::nullopt;
    }
    std::vector<ArrayBytes> bytes{arrays.bytes().begin(), arrays.bytes().end()};
    return start_sending(
        bridge, future,
        {client, held(std::move(arrays)), std::move(bytes), 1, deadline_of(timeout)});
}

Operation BaseAsyncClient::send_batch(const LoopBridge& bridge, const py::object& future,
                                      const py::object& stacked, std::optional<double> timeout) {
    auto arrays = tree_->take_stacked(stacked);
    const std::size_t count = arrays.count();
    std::vector<ArrayBytes> bytes{arrays.bytes().begin(), arrays.bytes().end()};
    return start_sending(
        bridge, future,
        {client(), held(std::move(arrays)), std::move(bytes), count, deadline_of(timeout)});
}

Operation BaseAsyncClient::send_many(const LoopBridge& bridge, const py::object& future,
                                     const py::iterable& trees, std::optional<double> timeout) {
    std::vector<Arrays> samples;
    for (const py::handle tree : trees) {
        samples.push_back(tree_->take(py::reinterpret_borrow<py::object>(tree)));
    }
    const auto rows =
        std::make_shared<Rows>(tree_->spec(), std::max<std::size_t>(samples.size(), 1));
    for (const Arrays& sample : samples) rows->add(sample.bytes());
    return start_sending(bridge, future,
                         {client(), rows, rows->stacked(), samples.size(), deadline_of(timeout)});
}

Operation BaseAsyncClient::start_sending(const LoopBridge& bridge, const py::object& future,
                                         Sending sending) {
    const Operation operation{bridge, future, Operation::Place::background};
    auto shared = std::make_shared<Sending>(std::move(sending));
    auto handler = operation.handler<std::exception_ptr>(
        [name = name_, shared](std::exception_ptr /*none: it only waits*/) -> py::object {
            if (!shared->result) raise(shared->result.error(), name);
            return py::none();
        });
    asio::co_spawn(background(), Sending::run(std::move(shared)), std::move(handler));
    return operation;
}

Operation BaseAsyncClient::wait(const LoopBridge& bridge, const py::object& future,
                                std::optional<double> timeout) {
    const Operation operation{bridge, future, Operation::Place::background};
    const auto result = std::make_shared<Sent>();
    auto handler = operation.handler<std::exception_ptr>(
        [name = name_, result](std::exception_ptr /*none: it only waits*/) -> py::object {
            if (!*result) raise(result->error(), name);
            return py::none();
        });
    asio::co_spawn(background(), wait_for_acks(client(), deadline_of(timeout), result),
                   std::move(handler));
    return operation;
}

Operation BaseAsyncClient::close(const LoopBridge& bridge, const py::object& future,
                                 std::optional<double> timeout) {
    const Operation operation{bridge, future, Operation::Place::background};
    const auto unacknowledged = std::make_shared<std::uint64_t>(0);
    auto handler = operation.handler<std::exception_ptr>(
        [unacknowledged](std::exception_ptr /*none: it only waits*/) -> py::object {
            return py::int_(*unacknowledged);
        });
    asio::co_spawn(background(), close_client(client(), deadline_of(timeout), unacknowledged),
                   std::move(handler));
    return operation;
}

std::uint64_t BaseAsyncClient::in_flight() const {
    return client()->in_flight();
}

bool BaseAsyncClient::was_open() const {
    const auto& client = client_.get("AsyncTcpClient");
    return client != nullptr && client->was_open();
}

void add_async_client(py::module_& module) {
    py::class_<BaseAsyncClient>(module, "BaseAsyncClient", "What rondo.AsyncTcpClient is built on.")
        .def(py::init<std::string, std::uint16_t, std::shared_ptr<Tree>>(), py::arg("host"),
             py::arg("port"), py::arg("tree"))
        .def("_connect", &BaseAsyncClient::connect)
        .def("_send", &BaseAsyncClient::send)
        .def("_send_batch", &BaseAsyncClient::send_batch)
        .def("_send_many", &BaseAsyncClient::send_many)
        .def("_wait", &BaseAsyncClient::wait)
        .def("_close", &BaseAsyncClient::close)
        .def_property_readonly("in_flight", &BaseAsyncClient::in_flight,
                               "Samples sent and not acknowledged.")
        .def_property_readonly(
            "closed", [](const BaseAsyncClient& client) { return !client.was_open(); },
            "Whether it is not connected, or either side has closed.")
        .def_property_readonly("spec", &BaseAsyncClient::spec, "The arrays of a sample, as text.");
}

}  // namespace rondo::python
