// SPDX-License-Identifier: Apache-2.0
#include "cli/demo.hpp"
#include "cli/doctor.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/load.hpp"
#include "cli/serve.hpp"
#include <rondo/version.hpp>

#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <system_error>

namespace rondo::cli {
namespace {

constexpr const char* exit_codes =
    "Exit codes:\n"
    "  0    ok; also if a first Ctrl-C ended it and nothing was lost\n"
    "  1    the work failed: wrong contents, a lost connection, samples without an\n"
    "       acknowledgement, a port in use; of doctor: pinning does not work here\n"
    "  2    wrong usage\n"
    "  130  a second Ctrl-C\n";

constexpr const char* spec_help = "The arrays of a sample, e.g. 'obs:float32[4],reward:float32[]'";

/// Accepts whole numbers from `least` to `most`. Unlike the checks of CLI11 2.1 it refuses negative
/// ones, which become large when an unsigned option takes them, and says nothing in the help.
CLI::Validator number(std::uint64_t least, std::uint64_t most = 1'000'000'000'000'000) {
    const auto check = [least, most](const std::string& text) -> std::string {
        std::uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool read = error == std::errc{} && stop == end;
        if (read && value >= least && value <= most) return {};
        return "expected a number from " + std::to_string(least) + " to " + std::to_string(most) +
               ", got '" + text + "'";
    };
    return CLI::Validator{check, ""};
}

void add_sabotage(CLI::App& command, Sabotage& sabotage) {
    // In no group: for tests, which want to see that the learner finds what is wrong.
    command.add_option("--corrupt", sabotage.corrupt)->group("");
    command.add_option("--skip", sabotage.skip)->group("");
    command.add_option("--duplicate", sabotage.duplicate)->group("");
    command.add_option("--cheat", sabotage.cheat)->group("");
}

void add_demo(CLI::App& command, DemoOptions& options) {
    command.add_option("--actors", options.actors, "Processes that play")
        ->check(number(1, 1'000))
        ->capture_default_str();
    command.add_option("--samples", options.samples, "Transitions that each of them sends")
        ->check(number(1))
        ->capture_default_str();
    command.add_option("--batch-size", options.batch_size, "Samples in a batch")
        ->check(number(1))
        ->capture_default_str();
    command.add_option("--buffers", options.buffers, "Batches in the ring")
        ->check(number(1))
        ->capture_default_str();
    command.add_option("--seed", options.seed, "Of the games; the same seed, the same games")
        ->check(number(0, std::numeric_limits<std::uint64_t>::max()))
        ->capture_default_str();
    command.add_option("--port", options.port, "On 127.0.0.1; 0: the system chooses")
        ->check(number(0, 65'535))
        ->capture_default_str();
    command.add_flag("--json", options.json, "Print the summary as JSON, progress to stderr");
    add_sabotage(command, options.sabotage);
}

void add_demo_actor(CLI::App& command, DemoActorOptions& options) {
    command.group("");  // `demo` starts it
    command.add_option("--connect", options.connect)->required();
    command.add_option("--id", options.id);
    command.add_option("--samples", options.samples);
    command.add_option("--seed", options.seed);
    command.add_option("--parent", options.parent);
    add_sabotage(command, options.sabotage);
}

void add_serve(CLI::App& command, ServeOptions& options) {
    command.add_option("--spec", options.spec, spec_help)->required();
    command.add_option("--batch-size", options.batch_size, "Samples in a batch")
        ->check(number(1))
        ->required();
    command.add_option("--buffers", options.buffers, "Batches in the ring")
        ->check(number(1))
        ->capture_default_str();
    command.add_option("--address", options.address, "A numeric address of this machine")
        ->capture_default_str();
    command.add_option("--port", options.port, "0: the system chooses")
        ->check(number(0, 65'535))
        ->capture_default_str();
    command.add_option("--protocol", options.protocol, "What the connections speak")
        ->check(CLI::IsMember({"echo/1"}))
        ->capture_default_str();
    command
        .add_option("--batches", options.batches, "End after so many batches; 0: at Ctrl-C only")
        ->check(number(0))
        ->capture_default_str();
    command
        .add_option("--io-threads", options.io_threads,
                    "Threads that receive; 0: half of the cores, at most 4")
        ->check(number(0, 64))
        ->capture_default_str();
    command.add_flag("--json", options.json, "Print events as JSON, progress to stderr");
}

void add_load(CLI::App& command, LoadOptions& options) {
    command.add_option("--spec", options.spec, spec_help)->required();
    command.add_option("--connect", options.connect, "HOST:PORT of the server")->required();
    command.add_option("--actors", options.actors, "Connections")
        ->check(number(1, 100'000))
        ->capture_default_str();
    command.add_option("--samples", options.samples, "That each of them sends; 0: until Ctrl-C")
        ->check(number(0))
        ->capture_default_str();
    command
        .add_option("--window", options.window,
                    "Samples of each that may wait for their acknowledgement; 0: as many as make "
                    "1 MiB, at least 32, at most 4,096")
        ->check(number(0, std::numeric_limits<std::uint32_t>::max()))
        ->capture_default_str();
    command.add_flag("--json", options.json, "Print the summary as JSON, progress to stderr");
}

void add_doctor(CLI::App& command, DoctorOptions& options) {
    command
        .add_option("--pin-device", options.pin_device,
                    "The device to pin for; else as a server would choose")
        ->check(number(0, std::numeric_limits<int>::max()));
    command.add_option("--cudart", options.cudart,
                       "The CUDA library to use, and no other: a path or a soname");
    command
        .add_option("--site-directory", options.site_directories,
                    "Where to look for NVIDIA's wheels; may be given several times")
        ->allow_extra_args(false);
    command.add_flag("--json", options.json, "Print the report as JSON");
}

int run(int argc, char* argv[]) {
    CLI::App app{"Moves reinforcement-learning experience from actors to learners.", "rondo"};
    app.set_version_flag("--version", "rondo " RONDO_VERSION);
    app.footer(exit_codes);
    app.require_subcommand(0, 1);  // none is an error of ours, else CLI11 tells of no other

    DemoOptions demo;
    DemoActorOptions demo_actor;
    ServeOptions serve;
    LoadOptions load;
    DoctorOptions doctor;
    auto* const demo_command = app.add_subcommand(
        "demo", "Actors as processes, a learner that checks every sample it gets");
    auto* const demo_actor_command = app.add_subcommand("demo-actor");
    auto* const serve_command = app.add_subcommand("serve", "A learner that counts batches");
    auto* const load_command = app.add_subcommand("load", "Actors that only load a server");
    auto* const doctor_command =
        app.add_subcommand("doctor", "Whether host memory can be pinned here, and how");
    add_demo(*demo_command, demo);
    add_demo_actor(*demo_actor_command, demo_actor);
    add_serve(*serve_command, serve);
    add_load(*load_command, load);
    add_doctor(*doctor_command, doctor);
    for (auto* const command : app.get_subcommands({})) command->footer(exit_codes);

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? exit_ok : exit_usage;  // it may be the help
    }
    if (demo_command->parsed()) return run_demo(demo);
    if (demo_actor_command->parsed()) return run_demo_actor(demo_actor);
    if (serve_command->parsed()) return run_serve(serve);
    if (load_command->parsed()) return run_load(load);
    if (doctor_command->parsed()) return run_doctor(doctor);
    complain("a command is required: demo, serve, load or doctor; rondo --help says more");
    return exit_usage;
}

}  // namespace
}  // namespace rondo::cli

int main(int argc, char* argv[]) {
    try {
        return rondo::cli::run(argc, argv);
    } catch (const std::exception& error) {
        rondo::cli::complain(error.what());
        return rondo::cli::exit_failed;
    }
}
