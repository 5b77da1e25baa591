// SPDX-License-Identifier: Apache-2.0
#include <rondo/error.hpp>

namespace rondo {
namespace {

std::string samples(std::uint64_t count) {
    return std::to_string(count) + (count == 1 ? " sample" : " samples");
}

}  // namespace

std::string InsertError::message() const {
    const std::string so_far = inserted == 0 ? "" : " (" + samples(inserted) + " inserted before)";
    switch (code) {
        case Code::closed:
            return "the server is closed and takes no more samples" + so_far;
        case Code::timed_out:
            return "the ring stayed full until the deadline" + so_far +
                   ": the learner is slower than the actors, or holds its batches";
        case Code::cancelled:
            return "the insert was cancelled" + so_far;
        case Code::mismatch:
            return "the sample does not fit the server's spec: " + detail;
    }
    return "unknown insert error";
}

std::string SampleError::message() const {
    switch (code) {
        case Code::closed:
            return "the server is closed and every batch that it had was taken";
        case Code::timed_out:
            return "no batch was complete before the deadline";
        case Code::cancelled:
            return "the wait for a batch was cancelled";
        case Code::next_leased:
            return "the next batch needs a buffer that is still leased, so it cannot come: release "
                   "the batch taken num_buffers batches ago first, or raise num_buffers";
    }
    return "unknown sample error";
}

std::string SendError::message() const {
    const std::string left = " (" + samples(unacknowledged) + " not acknowledged)";
    switch (code) {
        case Code::connection_closed:
            return "the connection is closed: " + detail + left;
        case Code::timed_out:
            return "the deadline passed" + left + ": the server takes samples too slowly";
        case Code::cancelled:
            return "the call was cancelled" + left;
        case Code::mismatch:
            return "the sample does not fit the client's spec: " + detail;
    }
    return "unknown send error";
}

}  // namespace rondo
