// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor.hpp"

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "pinning/pin_ring.hpp"
#include "pinning/resolve.hpp"
#include <rondo/version.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>
#include <string_view>
#include <variant>

namespace rondo::cli {
namespace {

using detail::PinReport;
using nlohmann::ordered_json;

// --- text ---------------------------------------------------------------------------------------

void print_field(std::string_view name, const std::string& value) {
    std::string line{name};
    line.resize(14, ' ');
    print_line(stdout, line + value);
}

void print_ladder(const PinReport& report) {
    std::size_t number = 0;
    for (const auto& attempt : report.attempts) {
        print_line(stdout, std::to_string(++number) + ". " + attempt.rung + ": " +
                               attempt.candidate + ": " + attempt.outcome);
    }
}

std::string version_text(int version) {
    return version == 0 ? "of an unknown version" : detail::cuda_version_text(version);
}

void print_devices(const PinReport& report) {
    for (const PinReport::Device& device : report.devices) {
        print_field(device.ordinal == 0 ? "devices" : "",
                    std::to_string(device.ordinal) + ": " +
                        (device.name.empty() ? "name not known" : device.name) +
                        (device.active ? ", has a context" : ""));
    }
    if (report.device) {
        print_field("device", std::to_string(*report.device) + ": " + report.device_reason);
    }
}

/// What a person has to know beyond the ladder, which stands above: the last line of the message.
std::string verdict_text(const PinReport& report) {
    if (!report.error) return "pinning works here";
    const std::string message = report.error->message();
    return "pinning does not work here. " + message.substr(message.rfind('\n') + 1);
}

void print_text(const PinReport& report) {
    print_ladder(report);
    if (!report.rung.empty()) {
        print_field("taken", report.rung + ", " + report.library);
        print_field("versions", report.api + ' ' + version_text(report.api_version) + ", driver " +
                                    version_text(report.driver_version) + ", rondo " RONDO_VERSION);
    }
    print_devices(report);
    if (report.bytes > 0) {
        print_field("registration", counted(report.bytes, "byte") + " registered and verified");
    }
    print_field("verdict", verdict_text(report));
}

// --- JSON ---------------------------------------------------------------------------------------

ordered_json text_or_null(const std::string& text) {
    return text.empty() ? ordered_json{} : ordered_json(text);
}

ordered_json version_or_null(int version) {
    return version == 0 ? ordered_json{} : ordered_json(detail::cuda_version_text(version));
}

struct ReasonName {
    const char* operator()(const InvalidOptions& /*reason*/) const { return "invalid_options"; }
    const char* operator()(const RingMemory& /*reason*/) const { return "ring_memory"; }
    const char* operator()(const RuntimeUnavailable& /*reason*/) const {
        return "runtime_unavailable";
    }
    const char* operator()(const Registration& /*reason*/) const { return "registration"; }
    const char* operator()(const CreationCancelled& /*reason*/) const { return "cancelled"; }
};

ordered_json error_json(const PinError& error) {
    ordered_json json{{"reason", std::visit(ReasonName{}, error.reason())},
                      {"message", error.message()},
                      {"call", nullptr},
                      {"symbol", nullptr},
                      {"code", nullptr}};
    if (const auto* const refused = error.as<Registration>()) {
        json["call"] = refused->call;
        json["symbol"] = refused->symbol;
        json["code"] = refused->code;
    }
    return json;
}

ordered_json report_json(const PinReport& report) {
    ordered_json json{{"event", "report"}, {"command", "doctor"}, {"version", RONDO_VERSION}};
    json["works"] = !report.error;
    json["attempts"] = ordered_json::array();
    for (const auto& attempt : report.attempts) {
        json["attempts"].push_back({{"rung", attempt.rung},
                                    {"candidate", attempt.candidate},
                                    {"outcome", attempt.outcome}});
    }
    json["rung"] = text_or_null(report.rung);
    json["library"] = text_or_null(report.library);
    json["api"] = text_or_null(report.api);
    json["api_version"] = version_or_null(report.api_version);
    json["driver_version"] = version_or_null(report.driver_version);
    json["devices"] = ordered_json::array();
    for (const PinReport::Device& device : report.devices) {
        json["devices"].push_back({{"ordinal", device.ordinal},
                                   {"name", text_or_null(device.name)},
                                   {"active", device.active}});
    }
    json["device"] = report.device ? ordered_json(*report.device) : ordered_json{};
    json["device_reason"] = text_or_null(report.device_reason);
    json["verified_bytes"] = report.bytes;
    json["error"] = report.error ? error_json(*report.error) : ordered_json{};
    return json;
}

}  // namespace

int run_doctor(const DoctorOptions& options) {
    const PinReport report = detail::diagnose_pinning(
        detail::make_pin_request(options.pin_device, options.cudart, options.site_directories));
    if (options.json) {
        // A path may hold any bytes, JSON only holds UTF-8.
        print_line(stdout, report_json(report).dump(-1, ' ', false,
                                                    ordered_json::error_handler_t::replace));
    } else {
        print_text(report);
    }
    if (!report.error) return exit_ok;
    return report.error->as<InvalidOptions>() != nullptr ? exit_usage : exit_failed;
}

}  // namespace rondo::cli
