// The stream between a node and its runner: frames, CBOR, tasks and reports.
#include <algorithm>
#include <span>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "fuzz/input.h"
#include "protocol/frame.h"
#include "protocol/task.h"

namespace {

// What was understood must survive being sent on.
template <typename Read>
void check_round_trip(const exo::Json& message, Read read) {
  const auto value = read(message);
  if (!value) return;
  const exo::Json json = to_json(*value);
  const auto frame = exo::protocol::encode_frame(json);
  EXO_CHECK(frame.has_value());
  exo::protocol::FrameReader reader;
  reader.append(*frame);
  const auto again = reader.next();
  EXO_CHECK(again && *again && read(**again));
  EXO_CHECK(to_json(*read(**again)) == json);
}

}  // namespace

// The first byte says into how long pieces the stream comes; 0: whole.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::size_t step = data[0] == 0 ? std::max<std::size_t>(rest.size(), 1) : data[0];
  exo::protocol::FrameReader reader;
  while (!rest.empty()) {
    const std::size_t length = std::min(step, rest.size());
    reader.append(rest.first(length));
    rest = rest.subspan(length);
    while (const auto message = reader.next()) {
      if (!*message) break;
      check_round_trip(**message, exo::protocol::task_from);
      check_round_trip(**message, exo::protocol::report_from);
    }
  }
  return 0;
}
