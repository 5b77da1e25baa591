// SPDX-License-Identifier: Apache-2.0
#include "info.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

namespace rondo::python {
namespace {

struct Number {
    const char* name;
    std::uint64_t SampleInfo::*field;
    const char* meaning;
};
constexpr std::array numbers{
    Number{"store_size", &SampleInfo::store_size,
           "Samples in complete batches, this one included."},
    Number{"active_connections", &SampleInfo::active_connections, "Clients that are connected."},
    Number{"queue_depth_sum", &SampleInfo::queue_depth_sum,
           "Producers that wait for room: no samples are queued."},
    Number{"queue_depth_max", &SampleInfo::queue_depth_max,
           "1 if one waits, since each holds back one sample."},
    Number{"push_blocked_count", &SampleInfo::push_blocked_count,
           "Times that the ring was full for somebody."},
    Number{"samples_inserted_total", &SampleInfo::samples_inserted_total,
           "Samples inserted so far."},
    Number{"notify_count", &SampleInfo::notify_count, "Waits that were woken."},
    Number{"cas_success_total", &SampleInfo::cas_success_total,
           "Reservations. Like the two below 0 unless the package was built for it."},
    Number{"cas_failure_total", &SampleInfo::cas_failure_total,
           "Reservations tried again, since another producer was faster."},
    Number{"reservation_retries_total", &SampleInfo::reservation_retries_total,
           "Reservations tried again for any reason."},
};

double seconds(std::chrono::nanoseconds duration) {
    return std::chrono::duration<double>{duration}.count();
}

std::string repr(const SampleInfo& info) {
    std::string text = "SampleInfo(";
    for (const Number& number : numbers) {
        text += (text.back() == '(' ? "" : ", ") + std::string{number.name} + "=" +
                std::to_string(info.*number.field);
    }
    return text + ")";
}

std::string repr(const HistSnapshot& snapshot) {
    return "HistSnapshot(count=" + std::to_string(snapshot.count) +
           ", p50_ns=" + std::to_string(snapshot.p50_ns) +
           ", p99_ns=" + std::to_string(snapshot.p99_ns) + ")";
}

void add_histogram(py::module_& module) {
    py::class_<HistSnapshot>(module, "HistSnapshot", "A summary of durations, in nanoseconds.")
        .def_readonly("count", &HistSnapshot::count, "How many were measured.")
        .def_readonly("min_ns", &HistSnapshot::min_ns, "The shortest.")
        .def_readonly("max_ns", &HistSnapshot::max_ns, "The longest.")
        .def_readonly("mean_ns", &HistSnapshot::mean_ns, "Their mean.")
        .def_readonly("p50_ns", &HistSnapshot::p50_ns, "As many percent were shorter.")
        .def_readonly("p90_ns", &HistSnapshot::p90_ns, "As many percent were shorter.")
        .def_readonly("p99_ns", &HistSnapshot::p99_ns, "As many percent were shorter.")
        .def("__repr__", [](const HistSnapshot& snapshot) { return repr(snapshot); });
}

}  // namespace

void add_info(py::module_& module) {
    add_histogram(module);
    py::class_<SampleInfo> info{module, "SampleInfo",
                                "The server's numbers at the moment a batch was taken."};
    for (const Number& number : numbers) {
        info.def_readonly(number.name, number.field, number.meaning);
    }
    info.def_readonly("drain_round", &SampleInfo::drain_round,
                      "Of a connection's turn that took samples in. Like the two below empty "
                      "unless the package was built for it.")
        .def_readonly("memcpy", &SampleInfo::memcpy, "Of filling the slots of one reservation.")
        .def_readonly("queue_dwell", &SampleInfo::queue_dwell,
                      "Of a sample, from its first byte to its commit.")
        .def_property_readonly(
            "batch_age_seconds", [](const SampleInfo& of) { return seconds(of.batch_age); },
            "Since the batch's first slot was taken.")
        .def("__repr__", [](const SampleInfo& of) { return repr(of); });
}

py::dict dict_of(const Metrics& metrics) {
    py::dict dict;
    dict["samples_inserted_total"] = metrics.samples_inserted_total;
    dict["samples_ready"] = metrics.samples_ready;
    dict["batches_leased_total"] = metrics.batches_leased_total;
    dict["batches_released_total"] = metrics.batches_released_total;
    dict["live_leases"] = metrics.live_leases;
    dict["oldest_sample_age_seconds"] = seconds(metrics.oldest_sample_age);
    dict["last_batch_age_seconds"] = seconds(metrics.last_batch_age);
    dict["samples_dropped_at_close"] = metrics.samples_dropped_at_close;
    dict["producer_waits_total"] = metrics.producer_waits_total;
    dict["consumer_waits_total"] = metrics.consumer_waits_total;
    dict["wakes_total"] = metrics.wakes_total;
    dict["producers_waiting"] = metrics.producers_waiting;
    dict["consumers_waiting"] = metrics.consumers_waiting;
    dict["longest_producer_wait_seconds"] = seconds(metrics.longest_producer_wait);
    dict["longest_consumer_wait_seconds"] = seconds(metrics.longest_consumer_wait);
    dict["active_connections"] = metrics.active_connections;
    dict["connections_accepted_total"] = metrics.connections_accepted_total;
    dict["bytes_received_total"] = metrics.bytes_received_total;
    dict["samples_received_total"] = metrics.samples_received_total;
    dict["truncated_samples_total"] = metrics.truncated_samples_total;
    dict["side_buffer_bytes"] = metrics.side_buffer_bytes;
    dict["cas_success_total"] = metrics.detailed.cas_success_total;
    dict["cas_failure_total"] = metrics.detailed.cas_failure_total;
    dict["reservation_retries_total"] = metrics.detailed.reservation_retries_total;
    return dict;
}

}  // namespace rondo::python
