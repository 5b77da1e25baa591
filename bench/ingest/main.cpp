// SPDX-License-Identifier: Apache-2.0
#include "ingest/programs.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace rondo::bench {
namespace {

int run(int argc, char* argv[]) {
    CLI::App app{"The processes that bench/ingest/run.py starts and measures.", "ingest"};
    app.require_subcommand(1);

    ServeOptions serving;
    auto* const serve_command = app.add_subcommand("serve", "A server and a learner");
    serve_command->add_option("--spec", serving.spec)->required();
    serve_command->add_option("--batch-size", serving.batch_size);
    serve_command->add_option("--buffers", serving.num_buffers);
    serve_command->add_flag("--ages", serving.ages, "Samples carry the time of their sending");

    LoadOptions loading;
    auto* const load_command = app.add_subcommand("load", "Actors");
    load_command->add_option("--spec", loading.spec)->required();
    load_command->add_option("--port", loading.port)->required();
    load_command->add_option("--connections", loading.connections);
    load_command->add_option("--processes", loading.processes);
    load_command->add_option("--rate", loading.rate, "Samples a second of all; 0: no limit");

    RawServeOptions raw_serving;
    auto* const raw_serve_command = app.add_subcommand("raw-serve", "A receiver of bytes");
    raw_serve_command->add_option("--bytes", raw_serving.payload_bytes)->required();
    raw_serve_command->add_option("--batch-size", raw_serving.batch_size);
    raw_serve_command->add_option("--buffers", raw_serving.num_buffers);
    raw_serve_command->add_flag("--readv", raw_serving.vectored, "readv instead of recv");

    RawLoadOptions raw_loading;
    auto* const raw_load_command = app.add_subcommand("raw-load", "Senders of bytes");
    raw_load_command->add_option("--bytes", raw_loading.payload_bytes)->required();
    raw_load_command->add_option("--port", raw_loading.port)->required();
    raw_load_command->add_option("--connections", raw_loading.connections);
    raw_load_command->add_option("--processes", raw_loading.processes);

    CLI11_PARSE(app, argc, argv);
    if (serve_command->parsed()) return serve(serving);
    if (load_command->parsed()) return load(loading);
    if (raw_serve_command->parsed()) return raw_serve(raw_serving);
    return raw_load(raw_loading);
}

}  // namespace
}  // namespace rondo::bench

int main(int argc, char* argv[]) {
    try {
        return rondo::bench::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ingest: %s\n", error.what());
        return EXIT_FAILURE;
    }
}
