// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/client_core.hpp"
#include "client/event.hpp"
#include "wire/greeting.hpp"
#include <rondo/deadline.hpp>
#include <rondo/detail/async_retry.hpp>
#include <rondo/error.hpp>
#include <rondo/spec.hpp>
#include <rondo/tcp_client.hpp>

#include <asio/any_io_executor.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <tl/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace rondo::detail {

/// One attempt to connect: resolves, tries each address, reads and checks the greeting.
///
/// A chain of callbacks that leaves one result, and the event that somebody waits for; so giving up
/// (`give_up`) takes effect at once, even while the system's resolver, which nobody can interrupt,
/// is still busy. The steps follow one another, each under the mutex, on any executor.
/// Ownership: by the pending callback and by whoever waits.
class Connector final : public Event, public std::enable_shared_from_this<Connector> {
    struct Private {};

public:
    using Result = tl::expected<std::shared_ptr<ClientCore>, ConnectError>;

    /// Starts; the deadline here is for sharing out time among several addresses: whoever waits
    /// enforces it.
    [[nodiscard]] static std::shared_ptr<Connector> start(asio::any_io_executor executor,
                                                          std::string host, std::uint16_t port,
                                                          SampleSpec spec, TcpClientOptions options,
                                                          Deadline deadline);

    Connector(Private, asio::any_io_executor executor, std::string host, std::uint16_t port,
              SampleSpec spec, TcpClientOptions options, Deadline deadline);

    /// The result, once there is one; once.
    [[nodiscard]] std::optional<Result> take();

    /// Ends it; still returns a connection that came meanwhile.
    [[nodiscard]] Result give_up(WaitEnd end);

private:
    enum class Stage : std::uint8_t { resolving, connecting, greeting, done };

    // All below: with mutex_ held, but for the callbacks, which lock it.
    void begin();
    void resolve();
    void connect_next();
    void limit_attempt();
    void on_connected(const std::error_code& error);
    void read_greeting();
    void greeted(std::size_t excess);
    void await_greeting();

    void note_failure(const std::error_code& error);
    [[nodiscard]] ConnectError all_failed() const;
    [[nodiscard]] std::string progress() const;
    void fail(ConnectError::Code code, std::string what);
    void finish(Result result);
    void stop() noexcept;

    template <typename Step>
    void locked(const Step& step);

    const std::string host_;
    const std::uint16_t port_;
    const std::string target_;  // "host:port"
    const SampleSpec spec_;
    const TcpClientOptions options_;
    const Deadline deadline_;

    std::mutex mutex_;
    Stage stage_ = Stage::resolving;
    asio::ip::tcp::resolver resolver_;
    asio::ip::tcp::socket socket_;
    asio::steady_timer timer_;
    std::vector<asio::ip::tcp::endpoint> endpoints_;
    std::size_t next_endpoint_ = 0;
    bool attempt_expired_ = false;
    std::string failures_;  // "address: why", one after another
    std::optional<ConnectError::Code> failure_;
    wire::GreetingParser parser_;
    std::optional<Result> result_;
    WaitList fired_;
};

/// For the retry helpers.
struct ConnectAttempt {
    using Result = Connector::Result;

    std::shared_ptr<Connector> connector;

    std::optional<Result> operator()() const { return connector->take(); }
    Result give_up(WaitEnd end) const { return connector->give_up(end); }
};

}  // namespace rondo::detail
