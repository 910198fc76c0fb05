// exo doctor: what exo finds on this machine, and what is wrong with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/command.h"
#include "core/json.h"

namespace exo::app {

struct Finding {
  enum class Verdict : std::uint8_t { kGood, kWarning, kBad };
  Verdict verdict = Verdict::kGood;
  std::string topic = {};   // "processor", "memory", …
  std::string detail = {};  // what was found
  std::string advice = {};  // what to do about it; empty when good
};

// Looks at everything; takes about a second, which the memory bandwidth needs.
std::vector<Finding> examine(const Context& context);

// Each topic on its own, for tests: the facts are arguments.
Finding judge_memory(std::uint64_t total_bytes, std::uint64_t available_bytes);
Finding judge_open_files(std::uint64_t soft, std::uint64_t hard);
Finding judge_isa(const std::vector<std::string>& available, const std::string& chosen);
Finding judge_models(const std::vector<std::string>& ids);

std::string doctor_text(const std::vector<Finding>& findings);
Json to_json(const std::vector<Finding>& findings);

}  // namespace exo::app
