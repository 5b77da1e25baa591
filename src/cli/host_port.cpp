// SPDX-License-Identifier: Apache-2.0
#include "cli/host_port.hpp"

#include <charconv>
#include <optional>
#include <system_error>

namespace rondo::cli {
namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) noexcept {
    std::uint16_t port = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, port);
    if (error != std::errc{} || stop != end || port == 0) return std::nullopt;
    return port;
}

tl::unexpected<std::string> fault(std::string_view text, std::string_view what) {
    return tl::unexpected{"'" + std::string{text} + "' " + std::string{what} +
                          "; expected HOST:PORT, e.g. learner:50051 or [::1]:50051"};
}

}  // namespace

tl::expected<HostPort, std::string> parse_host_port(std::string_view text) {
    std::string_view host;
    std::string_view rest;  // what follows the host, with its colon
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        if (close == std::string_view::npos) return fault(text, "has no ']' after its address");
        host = text.substr(1, close - 1);
        rest = text.substr(close + 1);
    } else {
        const std::size_t colon = text.find(':');
        host = text.substr(0, colon);
        if (colon != std::string_view::npos) rest = text.substr(colon);
        if (rest.find(':', 1) != std::string_view::npos) {
            return fault(text, "has several colons, so its address needs brackets");
        }
    }
    if (host.empty()) return fault(text, "has no host");
    if (!rest.starts_with(':')) return fault(text, "has no port");
    const auto port = parse_port(rest.substr(1));
    if (!port) return fault(text, "has no port between 1 and 65535");
    return HostPort{std::string{host}, *port};
}

}  // namespace rondo::cli
