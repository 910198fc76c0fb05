#include "app/doctor.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include <nlohmann/json.hpp>

#include "app/command_line.h"
#include "core/json.h"
#include "core/strings.h"

namespace exo::app {
namespace {

using Verdict = Finding::Verdict;

std::string_view mark(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "ok";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kBad:
      return "WRONG";
  }
  return "";
}

std::string_view word(Verdict verdict) {
  return verdict == Verdict::kBad ? "wrong" : mark(verdict);
}

int run_doctor(const Invocation& invocation, bool as_json) {
  const auto context = open_context(invocation);
  if (!context) return report(context.error());
  const auto findings = examine(*context);
  fmt::print("{}", as_json ? pretty_json(to_json(findings)) + "\n" : doctor_text(findings));
  const bool bad = std::ranges::count(findings, Verdict::kBad, &Finding::verdict) > 0;
  return bad ? kFailure : 0;
}

}  // namespace

Finding judge_memory(std::uint64_t total_bytes, std::uint64_t available_bytes) {
  Finding finding{.topic = "memory",
                  .detail = fmt::format("{} in all, {} available", human_bytes(total_bytes),
                                        human_bytes(available_bytes))};
  constexpr std::uint64_t kLittle = std::uint64_t{1} << 30;
  if (available_bytes < kLittle) {
    finding.verdict = Verdict::kWarning;
    finding.advice = "only small models fit; end other programs to make room";
  }
  return finding;
}

Finding judge_open_files(std::uint64_t soft, std::uint64_t hard) {
  Finding finding{.topic = "open files",
                  .detail = fmt::format("{} allowed, {} at most", soft, hard)};
  constexpr std::uint64_t kFew = 1024;
  if (hard < kFew) {
    finding.verdict = Verdict::kWarning;
    finding.advice = "few clients can connect at once; raise the hard limit (ulimit -Hn)";
  }
  return finding;
}

Finding judge_isa(const std::vector<std::string>& available, const std::string& chosen) {
  Finding finding{
      .topic = "instructions",
      .detail = fmt::format("{} in use; available: {}", chosen, fmt::join(available, ", "))};
  if (std::ranges::find(available, chosen) == available.end()) {
    finding.verdict = Verdict::kBad;
    finding.advice = "EXO_CPU_ISA names what this processor lacks; unset it";
  } else if (chosen != available.back()) {
    finding.verdict = Verdict::kWarning;
    finding.advice = fmt::format("EXO_CPU_ISA keeps exo from the faster {}", available.back());
  } else if (chosen == "scalar") {
    finding.verdict = Verdict::kWarning;
    finding.advice = "this processor has no instructions that exo's fast kernels use";
  }
  return finding;
}

Finding judge_models(const std::vector<std::string>& ids) {
  if (ids.empty()) {
    return {.verdict = Verdict::kWarning,
            .topic = "models",
            .detail = "none",
            .advice = "'exo import FILE' brings one in"};
  }
  return {.topic = "models", .detail = fmt::format("{}", fmt::join(ids, ", ")), .advice = {}};
}

std::string doctor_text(const std::vector<Finding>& findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.topic.size());
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:<7}  {:<{}}  {}\n", mark(finding.verdict), finding.topic, width,
                        finding.detail);
    if (!finding.advice.empty()) {
      text += fmt::format("{:<7}  {:<{}}  -> {}\n", "", "", width, finding.advice);
    }
  }
  const auto wrong = std::ranges::count(findings, Verdict::kBad, &Finding::verdict);
  const auto warnings = std::ranges::count(findings, Verdict::kWarning, &Finding::verdict);
  text += fmt::format("{} wrong, {} warnings\n", wrong, warnings);
  return text;
}

Json to_json(const std::vector<Finding>& findings) {
  Json array = Json::array();
  for (const Finding& finding : findings) {
    array.push_back({{"topic", finding.topic},
                     {"verdict", word(finding.verdict)},
                     {"detail", finding.detail},
                     {"advice", finding.advice}});
  }
  return array;
}

void add_doctor(CommandTree& tree) {
  auto as_json = std::make_shared<bool>(false);
  Invocation& invocation = tree.invocation();
  tree.add("doctor", "Examine this machine and say what is wrong")
      .flag("--json", *as_json, "as a JSON list")
      .settings({"api-port", "threads", "cpus", "cpu-isa"})
      .footer(
          "The exit status is 1 if something is wrong.\n\nExamples:\n"
          "  exo doctor\n"
          "  exo doctor --json | jq '.[] | select(.verdict != \"ok\")'")
      .runs([&invocation, as_json] { return run_doctor(invocation, *as_json); });
}

}  // namespace exo::app
