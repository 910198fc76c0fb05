// Chat templates against jinja2: tests/golden/make_templates.py made what is expected here.
#include "engine/chat_template.h"

#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/file.h"

namespace exo::engine {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(EXO_SOURCE_DIR) / "tests/golden/templates";

Result<std::string> render(const std::string& source, const Json& variables) {
  EXO_TRY(const ChatTemplate chat, ChatTemplate::open(source));
  return chat.render(variables);
}

// One line of expected.jsonl: a template, its variables, and what jinja2 makes of them.
struct Case {
  std::string name = {}, source = {};
  Json variables = {}, expected = {};
};

std::vector<Case> golden_cases() {
  std::istringstream lines(read_file(kFolder / "expected.jsonl", std::size_t{8} << 20).value());
  std::string line;
  std::getline(lines, line);
  const Json shared = Json::parse(line);
  std::vector<Case> cases;
  while (std::getline(lines, line)) {
    Case c{.expected = Json::parse(line)};
    c.variables = shared["base"];
    c.variables.update(shared["settings"][c.expected["setting"].get<std::size_t>()]);
    c.variables["messages"] =
        shared["conversations"][c.expected["conversation"].get<std::string>()];
    if (c.expected.contains("source")) {
      c.name = c.source = c.expected["source"].get<std::string>();
    } else {
      c.name = c.expected["template"].get<std::string>();
      c.source = read_file(kFolder / (c.name + ".jinja"), 1 << 20).value();
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

TEST(ChatTemplate, RendersWhatJinja2Renders) {
  std::size_t compared = 0;
  for (const Case& c : golden_cases()) {
    const auto got = render(c.source, c.variables);
    const std::string what = c.name + ", " + c.expected["conversation"].get<std::string>();
    if (c.expected.contains("output")) {
      EXPECT_TRUE(got) << what << ": " << to_string(got.error());
      if (got) EXPECT_EQ(*got, c.expected["output"].get<std::string>()) << what;
    } else {
      EXPECT_FALSE(got) << what << " gives " << *got;
      if (!got && c.expected.contains("raised"))
        EXPECT_EQ(got.error().message, c.expected["raised"].get<std::string>()) << what;
    }
    ++compared;
  }
  EXPECT_GE(compared, 600U);
}

TEST(ChatTemplate, NamesTheLineOfAMistake) {
  const auto broken = ChatTemplate::open("one\ntwo\n{% if %}x{% endif %}");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(broken.error().message.find("line 3"), std::string::npos) << broken.error().message;
}

TEST(ChatTemplate, StopsTemplatesThatDoNotEnd) {
  for (const char* source :
       {"{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set x = [1] %}{% set _ = x.append(x) %}{{ x }}"}) {
    EXPECT_FALSE(render(source, Json::object())) << source;
  }
}

}  // namespace
}  // namespace exo::engine
