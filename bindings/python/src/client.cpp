// SPDX-License-Identifier: Apache-2.0
#include "client.hpp"

#include "errors.hpp"
#include "rows.hpp"
#include "waits.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace rondo::python {
namespace {

/// The library copies samples up to this size, and sends larger ones from where they lie.
constexpr std::uint64_t max_copied_payload = 8'192;

/// Bytes that `send_many` gathers before it hands them over.
constexpr std::uint64_t chunk_bytes = std::uint64_t{256} << 10U;

constexpr std::chrono::seconds long_wait{10};

BlockingTcpClient connect(const std::string& host, std::uint16_t port, const Tree& tree,
                          std::uint32_t max_in_flight, double timeout) {
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::duration<double>{timeout});
    auto client = without_gil([&] {
        return BlockingTcpClient::connect(
            host, port, tree.spec(), {.max_in_flight = max_in_flight, .connect_timeout = patience},
            signals_let_go_on);
    });
    if (PyErr_Occurred() != nullptr) throw py::error_already_set{};
    if (!client) raise(client.error());
    return std::move(*client);
}

}  // namespace

BaseClient::BaseClient(const std::string& host, std::uint16_t port, std::shared_ptr<Tree> tree,
                       std::uint32_t max_in_flight, double connect_timeout)
    : peer_{host + ":" + std::to_string(port)},
      tree_{std::move(tree)},
      client_{connect(host, port, *tree_, max_in_flight, connect_timeout)} {}

BaseClient::~BaseClient() {
    if (auto client = client_.take()) without_gil([&] { client.reset(); });
}

bool BaseClient::is_small() const noexcept {
    return tree_->spec().payload_bytes() <= max_copied_payload;
}

void BaseClient::send(const py::object& tree, std::optional<double> timeout) {
    BlockingTcpClient& client = this->client();
    const Arrays arrays = tree_->take(tree);
    if (is_small()) {
        const auto sent = client.try_send(arrays.bytes());
        if (!sent) fail(sent.error());
        if (*sent) return;
    }
    send_rows(arrays.bytes(), 1, deadline_of(timeout));
}

void BaseClient::send_batch(const py::object& stacked, std::optional<double> timeout) {
    const Arrays arrays = tree_->take_stacked(stacked);
    send_rows(arrays.bytes(), arrays.count(), deadline_of(timeout));
}

void BaseClient::send_many(const py::iterable& trees, std::optional<double> timeout) {
    const Deadline deadline = deadline_of(timeout);
    if (is_small()) return send_copies(trees, deadline);
    for (const py::handle tree : trees) {
        const Arrays arrays = tree_->take(py::reinterpret_borrow<py::object>(tree));
        send_rows(arrays.bytes(), 1, deadline);
    }
}

void BaseClient::send_copies(const py::iterable& trees, Deadline deadline) {
    const std::uint64_t payload = std::max<std::uint64_t>(tree_->spec().payload_bytes(), 1);
    Rows rows =
        rows_ ? *std::exchange(rows_, {})
              : Rows{tree_->spec(), std::clamp<std::uint64_t>(chunk_bytes / payload, 1, 16'384)};
    for (const py::handle tree : trees) {
        rows.add(tree_->take(py::reinterpret_borrow<py::object>(tree)).bytes());
        if (!rows.full()) continue;
        send_rows(rows.stacked(), rows.count(), deadline);
        rows.clear();
    }
    if (rows.count() > 0) send_rows(rows.stacked(), rows.count(), deadline);
    rows.clear();
    rows_ = std::move(rows);
}

void BaseClient::send_rows(std::span<const ArrayBytes> stacked, std::size_t count,
                           Deadline deadline) {
    BlockingTcpClient& client = this->client();
    Turns turns{deadline};
    std::size_t sent = 0;
    while (sent < count) {
        const auto rest = rows_from(stacked, tree_->spec(), sent);
        auto result =
            without_gil([&] { return client.send_many(rest, count - sent, turns.next()); });
        if (result) return;
        sent += result.error().sent;  // those are on their way, whatever the error
        result.error().sent = sent;
        if (result.error().code != SendError::Code::timed_out) fail(result.error());
        if (!turns.go_on() && sent < count) fail(result.error());
    }
}

void BaseClient::wait(std::optional<double> timeout) {
    BlockingTcpClient& client = this->client();
    Turns turns{deadline_of(timeout), long_wait};
    for (;;) {
        const auto result = without_gil([&] { return client.wait(turns.next()); });
        if (result) return;
        if (result.error().code != SendError::Code::timed_out || !turns.go_on()) {
            fail(result.error());
        }
        if (turns.first_turn_ended()) say_what_wait_waits_for();
    }
}

void BaseClient::say_what_wait_waits_for() const {
    py::module_::import("logging").attr("getLogger")("rondo").attr("warning")(
        "wait() has waited for " + std::to_string(long_wait.count()) + " s: the server at " +
        peer_ + " has not acknowledged " + std::to_string(in_flight()) +
        " samples. It does so when they are in its ring, which is full until "
        "somebody calls sample()");
}

std::uint64_t BaseClient::close(std::optional<double> timeout) {
    BlockingTcpClient& client = this->client();
    const Deadline deadline = deadline_of(timeout);
    const std::uint64_t left =
        without_gil([&] { return client.close(deadline, signals_let_go_on); });
    if (PyErr_Occurred() != nullptr) throw py::error_already_set{};
    return left;
}

void BaseClient::fail(const SendError& error) const {
    raise(error, "TcpClient for " + peer_);
}

void add_client(py::module_& module) {
    py::class_<BaseClient>(module, "BaseClient", "What rondo.TcpClient is built on.")
        .def(py::init<const std::string&, std::uint16_t, std::shared_ptr<Tree>, std::uint32_t,
                      double>(),
             py::arg("host"), py::arg("port"), py::arg("tree"), py::arg("max_in_flight"),
             py::arg("connect_timeout"))
        .def("send", &BaseClient::send, py::arg("data"), py::kw_only(),
             py::arg("timeout") = py::none(),
             "Sends one sample; waits while `max_inflight_msgs` are not acknowledged. When it "
             "returns, the arrays may be changed; `wait` tells that the server has it.\n\n"
             "Raises TimeoutError after `timeout` seconds, ConnectionClosedError if the connection "
             "is closed, ValueError or TypeError if the tree does not fit.")
        .def("send_many", &BaseClient::send_many, py::arg("trees"), py::kw_only(),
             py::arg("timeout") = py::none(), "Sends samples, in order, in one call.")
        .def("send_batch", &BaseClient::send_batch, py::arg("data"), py::kw_only(),
             py::arg("timeout") = py::none(),
             "Sends the samples that are stacked in a tree, `[n, *shape]` in each leaf.")
        .def("wait", &BaseClient::wait, py::kw_only(), py::arg("timeout") = py::none(),
             "Waits until every sample sent before is in the server's ring.")
        .def("close", &BaseClient::close, py::kw_only(), py::arg("timeout") = 5.0,
             "Waits for the acknowledgements, closes, and returns how many did not come. "
             "Idempotent.")
        .def_property_readonly("in_flight", &BaseClient::in_flight,
                               "Samples sent and not acknowledged.")
        .def_property_readonly(
            "closed", [](const BaseClient& client) { return !client.was_open(); },
            "Whether either side has closed.")
        .def_property_readonly("spec", &BaseClient::spec, "The arrays of a sample, as text.");
}

}  // namespace rondo::python
