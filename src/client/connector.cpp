// SPDX-License-Identifier: Apache-2.0
#include "client/connector.hpp"

#include "client/socket_io.hpp"

#include <asio/error.hpp>
#include <asio/ip/address.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <fcntl.h>
#include <utility>

namespace rondo::detail {
namespace {

using tcp = asio::ip::tcp;

std::string text_of(const tcp::endpoint& endpoint) {
    const std::string address = endpoint.address().to_string();
    const std::string port = ':' + std::to_string(endpoint.port());
    return endpoint.address().is_v6() ? '[' + address + ']' + port : address + port;
}

std::string target_text(const std::string& host, std::uint16_t port) {
    const bool is_v6 = host.find(':') != std::string::npos;
    return (is_v6 ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

ConnectError::Code code_of(const std::error_code& error) {
    if (error == asio::error::connection_refused) return ConnectError::Code::refused;
    if (error == asio::error::timed_out) return ConnectError::Code::timed_out;
    return ConnectError::Code::system;
}

// Which of several addresses' failures tells most: somebody who is there and refuses, does.
int weight_of(ConnectError::Code code) noexcept {
    switch (code) {
        case ConnectError::Code::refused:
            return 2;
        case ConnectError::Code::timed_out:
            return 1;
        default:
            return 0;
    }
}

}  // namespace

std::shared_ptr<Connector> Connector::start(asio::any_io_executor executor, std::string host,
                                            std::uint16_t port, SampleSpec spec,
                                            TcpClientOptions options, Deadline deadline) {
    auto connector = std::make_shared<Connector>(Private{}, std::move(executor), std::move(host),
                                                 port, std::move(spec), options, deadline);
    connector->locked([](Connector& self) { self.begin(); });
    return connector;
}

Connector::Connector(Private /*unused*/, asio::any_io_executor executor, std::string host,
                     std::uint16_t port, SampleSpec spec, TcpClientOptions options,
                     Deadline deadline)
    : Event{mutex_},
      host_{std::move(host)},
      port_{port},
      target_{target_text(host_, port)},
      spec_{std::move(spec)},
      options_{options},
      deadline_{deadline},
      resolver_{executor},
      socket_{executor},
      timer_{executor} {}

// Every step runs in here: under the mutex, until the result; then the waiter is woken.
template <typename Step>
void Connector::locked(const Step& step) {
    std::unique_lock lock{mutex_};
    if (stage_ != Stage::done) step(*this);
    auto fired = fired_.take(1);
    lock.unlock();
    fired.wake_all();
}

std::optional<Connector::Result> Connector::take() {
    const std::lock_guard lock{mutex_};
    return std::exchange(result_, std::nullopt);
}

Connector::Result Connector::give_up(WaitEnd end) {
    const std::lock_guard lock{mutex_};
    if (result_) return *std::exchange(result_, std::nullopt);
    const bool timed_out = end == WaitEnd::timed_out;
    std::string what = timed_out ? "no connection to " + target_ + " in time: " + progress()
                                 : "connecting to " + target_ + " was cancelled";
    stop();
    return tl::unexpected{
        ConnectError{timed_out ? ConnectError::Code::timed_out : ConnectError::Code::cancelled,
                     std::move(what)}};
}

void Connector::begin() {
    if (host_.empty()) return fail(ConnectError::Code::invalid_option, "the host is empty");
    // The system's functions take a text that ends there, and would connect to what is before it.
    if (const auto nul = host_.find('\0'); nul != std::string::npos) {
        return fail(ConnectError::Code::invalid_option,
                    "the host has a NUL character at index " + std::to_string(nul) +
                        ": expected a name or a numeric address");
    }
    if (port_ == 0) {
        return fail(
            ConnectError::Code::invalid_option,
            "port 0 cannot be connected to: it is what a server listens on to be given one");
    }
    if (auto speakable = wire::check_speakable(spec_); !speakable) {
        return fail(ConnectError::Code::spec_unsuited, speakable.error().message());
    }
    // An address needs no resolver, which would start a thread.
    std::error_code not_numeric;
    const auto address = asio::ip::make_address(host_, not_numeric);
    if (not_numeric) return resolve();
    endpoints_.emplace_back(address, port_);
    connect_next();
}

void Connector::resolve() {
    resolver_.async_resolve(
        host_, std::to_string(port_), tcp::resolver::numeric_service,
        [self = shared_from_this()](const std::error_code& error,
                                    const tcp::resolver::results_type& results) {
            self->locked([&](Connector& connector) {
                if (error) {
                    return connector.fail(
                        ConnectError::Code::resolve,
                        "cannot resolve the host \"" + connector.host_ + "\": " + error.message());
                }
                connector.endpoints_.assign(results.begin(), results.end());
                connector.connect_next();
            });
        });
}

void Connector::connect_next() {
    stage_ = Stage::connecting;
    while (next_endpoint_ < endpoints_.size()) {
        const tcp::endpoint& endpoint = endpoints_[next_endpoint_++];
        attempt_expired_ = false;
        std::error_code error;
        socket_.close(error);
        socket_.open(endpoint.protocol(), error);
        if (error) {
            note_failure(error);
            continue;
        }
        // A child that the program starts must not keep the connection alive.
        ::fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);
        socket_.async_connect(endpoint, [self = shared_from_this()](const std::error_code& result) {
            self->locked([&](Connector& connector) { connector.on_connected(result); });
        });
        limit_attempt();
        return;
    }
    finish(tl::unexpected{all_failed()});
}

// An address that swallows everything must not use up the time of those behind it.
void Connector::limit_attempt() {
    const std::size_t others = endpoints_.size() - next_endpoint_;
    if (others == 0 || deadline_.never()) return;
    const auto left = deadline_.at() - Deadline::Clock::now();
    timer_.expires_after(left / static_cast<std::int64_t>(others + 1));
    timer_.async_wait(
        [self = shared_from_this(), attempt = next_endpoint_](const std::error_code& error) {
            if (error) return;
            self->locked([&](Connector& connector) {
                if (connector.stage_ != Stage::connecting || connector.next_endpoint_ != attempt)
                    return;
                connector.attempt_expired_ = true;
                std::error_code ignored;
                connector.socket_.close(ignored);  // ends the attempt with an error
            });
        });
}

void Connector::on_connected(const std::error_code& error) {
    timer_.cancel();
    if (error || attempt_expired_) {
        note_failure(attempt_expired_ ? asio::error::make_error_code(asio::error::timed_out)
                                      : error);
        return connect_next();
    }
    stage_ = Stage::greeting;
    std::error_code refused;
    socket_.non_blocking(true, refused);
    if (!refused) socket_.set_option(tcp::no_delay{true}, refused);
    if (refused) return fail(ConnectError::Code::system, refused.message());
    limit_unsent(socket_.native_handle());
    std::error_code unknown;
    const auto here = socket_.local_endpoint(unknown).address();
    if (here == endpoints_[next_endpoint_ - 1].address()) {
        limit_send_buffer(socket_.native_handle());
    }
    read_greeting();
}

void Connector::read_greeting() {
    constexpr int rounds = 8;  // a peer that never ends its greeting must not keep this thread
    std::array<std::byte, 4096> bytes;  // NOLINT(*-member-init): the kernel fills it
    for (int i = 0; i < rounds; ++i) {
        const CallResult result = receive_some(socket_.native_handle(), bytes);
        if (result.would_block()) break;
        if (result.error != 0) {
            return fail(ConnectError::Code::cut_off,
                        "the connection broke before the greeting was complete (" +
                            std::generic_category().message(result.error) + ")");
        }
        if (result.bytes == 0) {
            return fail(ConnectError::Code::cut_off, parser_.truncation().message());
        }
        const auto progress = parser_.feed(std::span{bytes}.first(result.bytes));
        if (progress.state == wire::GreetingParser::State::failed) {
            return fail(ConnectError::Code::protocol, parser_.error().message());
        }
        if (progress.state == wire::GreetingParser::State::done) {
            return greeted(result.bytes - progress.consumed);
        }
    }
    await_greeting();
}

void Connector::await_greeting() {
    socket_.async_wait(
        asio::socket_base::wait_read, [self = shared_from_this()](const std::error_code& error) {
            self->locked([&](Connector& connector) {
                if (error) {
                    return connector.fail(ConnectError::Code::system, error.message());
                }
                connector.read_greeting();
            });
        });
}

void Connector::greeted(std::size_t excess) {
    if (auto same = wire::check_greeting(parser_.greeting(), spec_); !same) {
        return fail(ConnectError::Code::spec_mismatch, same.error().message());
    }
    if (excess > 0) {
        return fail(ConnectError::Code::protocol,
                    "the server sent " + std::to_string(excess) +
                        (excess == 1 ? " byte" : " bytes") +
                        " behind its greeting, before any sample: it is no echo server");
    }
    finish(ClientCore::create(std::move(socket_), text_of(endpoints_[next_endpoint_ - 1]), spec_,
                              options_.max_in_flight));
}

void Connector::note_failure(const std::error_code& error) {
    if (!failures_.empty()) failures_ += "; ";
    failures_ += text_of(endpoints_[next_endpoint_ - 1]) + ": " + error.message();
    const ConnectError::Code code = code_of(error);
    if (!failure_ || weight_of(code) > weight_of(*failure_)) failure_ = code;
}

ConnectError Connector::all_failed() const {
    ConnectError error{failure_.value_or(ConnectError::Code::resolve),
                       "cannot connect to " + target_ + ": "};
    error.what += failures_.empty() ? "the host has no address" : failures_;
    if (error.code == ConnectError::Code::refused) {
        error.what += " (is the server running, and is this its port?)";
    }
    return error;
}

std::string Connector::progress() const {
    switch (stage_) {
        case Stage::resolving:
            return "the host name is still being resolved";
        case Stage::connecting:
            return text_of(endpoints_[next_endpoint_ - 1]) + " has not answered" +
                   (failures_.empty() ? "" : " (before it: " + failures_ + ")");
        case Stage::greeting:
            return "it accepted the connection, but its greeting has not come; is it a rondo or an "
                   "echo server?";
        case Stage::done:
            break;
    }
    return {};
}

void Connector::fail(ConnectError::Code code, std::string what) {
    if (stage_ == Stage::greeting) what = target_ + ": " + what;
    finish(tl::unexpected{ConnectError{code, std::move(what)}});
}

void Connector::finish(Result result) {
    result_ = std::move(result);
    stop();
    fire(fired_);
}

void Connector::stop() noexcept {
    stage_ = Stage::done;
    std::error_code ignored;
    socket_.close(ignored);
    resolver_.cancel();
    timer_.cancel();
}

}  // namespace rondo::detail
