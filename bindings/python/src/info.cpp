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
};
constexpr std::array numbers{
    Number{"store_size", &SampleInfo::store_size},
    Number{"active_connections", &SampleInfo::active_connections},
    Number{"queue_depth_sum", &SampleInfo::queue_depth_sum},
    Number{"queue_depth_max", &SampleInfo::queue_depth_max},
    Number{"push_blocked_count", &SampleInfo::push_blocked_count},
    Number{"samples_inserted_total", &SampleInfo::samples_inserted_total},
    Number{"notify_count", &SampleInfo::notify_count},
    Number{"cas_success_total", &SampleInfo::cas_success_total},
    Number{"cas_failure_total", &SampleInfo::cas_failure_total},
    Number{"reservation_retries_total", &SampleInfo::reservation_retries_total},
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
        .def_readonly("count", &HistSnapshot::count)
        .def_readonly("min_ns", &HistSnapshot::min_ns)
        .def_readonly("max_ns", &HistSnapshot::max_ns)
        .def_readonly("mean_ns", &HistSnapshot::mean_ns)
        .def_readonly("p50_ns", &HistSnapshot::p50_ns)
        .def_readonly("p90_ns", &HistSnapshot::p90_ns)
        .def_readonly("p99_ns", &HistSnapshot::p99_ns)
        .def("__repr__", [](const HistSnapshot& snapshot) { return repr(snapshot); });
}

}  // namespace

void add_info(py::module_& module) {
    add_histogram(module);
    py::class_<SampleInfo> info{module, "SampleInfo",
                                "The server's numbers at the moment a batch was taken."};
    for (const Number& number : numbers) info.def_readonly(number.name, number.field);
    info.def_readonly("drain_round", &SampleInfo::drain_round)
        .def_readonly("memcpy", &SampleInfo::memcpy)
        .def_readonly("queue_dwell", &SampleInfo::queue_dwell)
        .def_property_readonly("batch_age_seconds",
                               [](const SampleInfo& of) { return seconds(of.batch_age); })
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
