// SPDX-License-Identifier: Apache-2.0
#include "info.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

namespace rondo::python {
namespace {

/// A summary of durations, in id-echo's form. Empty while nothing is measured.
struct HistSnapshot {
    std::uint64_t count = 0;
    std::uint64_t min_ns = 0;
    std::uint64_t max_ns = 0;
    double mean_ns = 0;
    std::uint64_t p50_ns = 0;
    std::uint64_t p90_ns = 0;
    std::uint64_t p99_ns = 0;
};

// The tables: a field that the library learns is one more line, and one of `unmeasured` less.

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
    Number{"push_blocked_count", &SampleInfo::push_blocked_count,
           "Times that the ring was full for somebody."},
    Number{"samples_inserted_total", &SampleInfo::samples_inserted_total,
           "Samples inserted so far."},
    Number{"notify_count", &SampleInfo::notify_count, "Waits that were woken."},
};
constexpr std::array unmeasured_numbers{"queue_depth_max", "cas_success_total", "cas_failure_total",
                                        "reservation_retries_total"};
constexpr std::array unmeasured_histograms{"drain_round", "memcpy", "queue_dwell"};

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
    for (const char* const name : unmeasured_numbers) {
        info.def_property_readonly(
            name, [](const SampleInfo&) { return 0; },
            "Always 0: nothing of the kind is there, or measured.");
    }
    for (const char* const name : unmeasured_histograms) {
        info.def_property_readonly(
            name, [](const SampleInfo&) { return HistSnapshot{}; }, "Empty: not measured.");
    }
    info.def("__repr__", [](const SampleInfo& of) { return repr(of); });
}

py::dict dict_of(const Metrics& metrics) {
    const auto seconds = [](std::chrono::nanoseconds duration) {
        return std::chrono::duration<double>{duration}.count();
    };
    py::dict dict;
    dict["samples_inserted_total"] = metrics.samples_inserted_total;
    dict["samples_ready"] = metrics.samples_ready;
    dict["batches_leased_total"] = metrics.batches_leased_total;
    dict["batches_released_total"] = metrics.batches_released_total;
    dict["live_leases"] = metrics.live_leases;
    dict["oldest_sample_age_seconds"] = seconds(metrics.oldest_sample_age);
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
    return dict;
}

}  // namespace rondo::python
