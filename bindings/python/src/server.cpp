// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include "errors.hpp"
#include "info.hpp"
#include "lease.hpp"
#include "rows.hpp"
#include "waits.hpp"

#include <chrono>
#include <utility>

namespace rondo::python {
namespace {

/// Copies below this are over sooner than the GIL would come back.
constexpr std::uint64_t small_copy = std::uint64_t{64} << 10U;

rondo::Server make_server(const Tree& tree, const BaseServer::Options& options) {
    auto server = without_gil([&] {
        return rondo::Server::create(tree.spec(), {.batch_size = options.batch_size,
                                                   .num_buffers = options.num_buffers,
                                                   .pin_host_memory = options.pin_host_memory,
                                                   .site_directories = options.site_directories,
                                                   .io_threads = options.io_threads});
    });
    if (!server) raise(server.error());
    return std::move(*server);
}

/// Cycles keep batches alive until the collector comes to them, and a learner that holds the whole
/// ring may well wait for that.
void collect_garbage() {
    py::module_::import("gc").attr("collect")();
}

constexpr const char* all_held =
    "no batch can come: the buffer that the next one needs is held by the batch that was taken "
    "num_buffers batches ago. Drop that batch with every view of its arrays (or release() it), "
    "copy "
    "what you want to keep, or raise num_buffers; if somebody else will drop it, pass "
    "wait_for_release=True";

}  // namespace

BaseServer::BaseServer(std::shared_ptr<Tree> tree, py::object sample_type, const Options& options)
    : tree_{std::move(tree)},
      sample_type_{std::move(sample_type)},
      server_{make_server(*tree_, options)} {}

BaseServer::~BaseServer() {
    if (auto server = server_.take()) without_gil([&] { server.reset(); });  // joins its threads
}

std::uint16_t BaseServer::listen(const std::string& address, std::uint16_t port) {
    rondo::Server& server = this->server();
    auto where =
        without_gil([&] { return server.listen(TcpOptions{.address = address, .port = port}); });
    if (!where) raise(where.error());
    return where->port;
}

py::object BaseServer::to_python(Batch batch, bool writable) const {
    const SampleInfo info = batch.info();
    const py::object lease =
        py::cast(std::make_unique<Lease>(std::move(batch), server().options().pin_host_memory));
    py::object arrays = tree_->of_batch(lease.cast<Lease&>().batch(), lease, writable);
    // The constructor of a named tuple is Python code; that of its base does the same.
    const py::tuple fields = py::make_tuple(std::move(arrays), info);
    return owned(PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(sample_type_.ptr()),
                                     py::make_tuple(fields).ptr(), nullptr));
}

py::object BaseServer::sample(std::optional<double> timeout, bool writable, WhenHeld held) {
    auto batch = server().try_sample();
    if (batch && *batch) return to_python(std::move(**batch), writable);
    if (!batch && batch.error().code == SampleError::Code::closed) {
        stay_here_at_exit();
        return py::none();
    }
    return wait_for_sample(deadline_of(timeout), writable, held);
}

py::object BaseServer::wait_for_sample(Deadline deadline, bool writable, WhenHeld held) {
    rondo::Server& server = this->server();
    const auto rule = held == WhenHeld::wait ? WhenNextLeased::wait : WhenNextLeased::by_form;
    bool collected = false;
    Turns turns{deadline, std::chrono::seconds{1}};
    for (;;) {
        auto batch = without_gil([&] {
            return server.blocking_sample({.deadline = turns.next(), .when_next_leased = rule});
        });
        if (batch) return to_python(std::move(*batch), writable);
        const SampleError::Code code = batch.error().code;
        if (code == SampleError::Code::closed) return py::none();
        const bool refused = code == SampleError::Code::next_leased;
        if (refused && collected) raise(PyExc_RuntimeError, all_held);
        // The garbage of others, batches or waits of a loop that is gone, holds us up just as well.
        const bool waited_long = turns.first_turn_ended();
        if (!collected && (refused || waited_long)) {
            collect_garbage();
            collected = true;
        }
        if (!refused && !turns.go_on()) raise(batch.error());
    }
}

std::pair<BaseServer::Now, py::object> BaseServer::try_sample(bool writable) {
    auto batch = server().blocking_sample(
        {.deadline = Deadline::Clock::now(), .when_next_leased = WhenNextLeased::fail});
    if (batch) return {Now::sample, to_python(std::move(*batch), writable)};
    switch (batch.error().code) {
        case SampleError::Code::closed:
            return {Now::ended, py::none()};
        case SampleError::Code::next_leased:
            return {Now::held, py::none()};
        default:
            return {Now::nothing, py::none()};
    }
}

Operation BaseServer::wait_for_batch(const LoopBridge& bridge, const py::object& future,
                                     std::optional<double> timeout, WhenHeld held) {
    const Operation operation{bridge, future, Operation::Place::loop};
    const auto rule = held == WhenHeld::wait ? WhenNextLeased::wait : WhenNextLeased::fail;
    server().async_wait_for_batch(
        operation.handler<bool>([](bool ready) -> py::object { return py::bool_(ready); }),
        {.deadline = deadline_of(timeout), .when_next_leased = rule});
    return operation;
}

void BaseServer::submit(const py::object& tree, std::optional<double> timeout) {
    rondo::Server& server = this->server();
    const Arrays arrays = tree_->take(tree);
    if (tree_->spec().payload_bytes() < small_copy) {
        const auto inserted = server.try_insert(arrays.bytes());
        if (!inserted) raise(inserted.error());
        if (*inserted) return;
    }
    insert(arrays, timeout);
}

void BaseServer::submit_batch(const py::object& stacked, std::optional<double> timeout) {
    insert(tree_->take_stacked(stacked), timeout);
}

void BaseServer::insert(const Arrays& arrays, std::optional<double> timeout) {
    rondo::Server& server = this->server();
    Turns turns{deadline_of(timeout)};
    std::size_t inserted = 0;
    while (inserted < arrays.count()) {
        const auto rest = rows_from(arrays.bytes(), tree_->spec(), inserted);
        const std::size_t count = arrays.count() - inserted;
        auto result =
            without_gil([&] { return server.blocking_insert_many(rest, count, turns.next()); });
        if (result) return;
        inserted += result.error().inserted;
        result.error().inserted = inserted;
        const bool waits = result.error().code == InsertError::Code::timed_out;
        if (!waits || !turns.go_on()) raise(result.error());
    }
}

void BaseServer::close() {
    rondo::Server& server = this->server();
    without_gil([&] { server.close(); });
}

py::dict BaseServer::metrics() const {
    return dict_of(server().metrics());
}

void BaseServer::reset_histograms() {
    server().reset_histograms();
}

void add_server(py::module_& module) {
    using Timeout = std::optional<double>;
    module.attr("ALL_HELD") = all_held;
    py::enum_<BaseServer::Now>(module, "Now", "What sample() would do now.")
        .value("sample", BaseServer::Now::sample)
        .value("ended", BaseServer::Now::ended)
        .value("held", BaseServer::Now::held)
        .value("nothing", BaseServer::Now::nothing);
    py::class_<BaseServer>(module, "BaseServer", "What rondo.Server is built on.")
        .def(py::init([](std::shared_ptr<Tree> tree, py::object sample_type,
                         std::uint64_t batch_size, std::uint64_t num_buffers, bool pin_host_memory,
                         std::vector<std::string> site_directories, std::uint32_t io_threads) {
                 return std::make_unique<BaseServer>(
                     std::move(tree), std::move(sample_type),
                     BaseServer::Options{batch_size, num_buffers, pin_host_memory,
                                         std::move(site_directories), io_threads});
             }),
             py::arg("tree"), py::arg("sample_type"), py::kw_only(), py::arg("batch_size"),
             py::arg("num_buffers"), py::arg("pin_host_memory"), py::arg("site_directories"),
             py::arg("io_threads"))
        .def("_listen", &BaseServer::listen, py::arg("address"), py::arg("port"))
        .def(
            "sample",
            [](BaseServer& server, Timeout timeout, bool writable, bool wait_for_release) {
                return server.sample(timeout, writable,
                                     wait_for_release ? WhenHeld::wait : WhenHeld::raise);
            },
            py::kw_only(), py::arg("timeout") = py::none(), py::arg("writable") = false,
            py::arg("wait_for_release") = false,
            "Waits for the next batch; None once the server is closed and empty.\n\n"
            "Raises TimeoutError after `timeout` seconds, and RuntimeError if the next batch needs "
            "a "
            "buffer that is held by a batch which this thread took, unless `wait_for_release`. The "
            "arrays are read-only unless `writable`.")
        .def("_try_sample", &BaseServer::try_sample, py::arg("writable"))
        .def(
            "_wait_for_batch",
            [](BaseServer& server, const LoopBridge& bridge, const py::object& future,
               Timeout timeout, bool wait_for_release) {
                return server.wait_for_batch(bridge, future, timeout,
                                             wait_for_release ? WhenHeld::wait : WhenHeld::raise);
            },
            py::arg("bridge"), py::arg("future"), py::arg("timeout"), py::arg("wait_for_release"))
        .def("submit", &BaseServer::submit, py::arg("data"), py::kw_only(),
             py::arg("timeout") = py::none(),
             "Inserts one sample from this process; waits while the ring is full.\n\n"
             "Raises TimeoutError after `timeout` seconds, ConnectionClosedError if the server is "
             "closed, ValueError or TypeError if the tree does not fit.")
        .def("submit_batch", &BaseServer::submit_batch, py::arg("data"), py::kw_only(),
             py::arg("timeout") = py::none(),
             "Inserts the samples that are stacked in a tree, `[n, *shape]` in each leaf.")
        .def("close", &BaseServer::close,
             "Takes no more samples. The complete batches that remain can still be sampled. "
             "Idempotent.")
        .def("metrics", &BaseServer::metrics,
             "What the server knows about itself now: counters (`*_total`) and gauges.")
        .def("_reset_histograms", &BaseServer::reset_histograms)
        .def_property_readonly("spec", &BaseServer::spec, "The arrays of a sample, as text.");
}

}  // namespace rondo::python
