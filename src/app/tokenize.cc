// exo tokenize: the ids that a model sees for a text.
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/command.h"
#include "app/model_access.h"
#include "core/file.h"
#include "core/utf8.h"

namespace exo::app {
namespace {

struct TokenizeOptions {
  std::string model, text, export_file;
  bool as_json = false;
};

// What a token stands for, between quotes; bytes that are no text of their own as \xNN.
std::string quoted(const std::string& bytes) {
  if (is_valid_utf8(bytes)) {
    std::string text = "\"";
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '\n') {
        text += "\\n";
      } else if (byte < 0x20 || byte == 0x7F) {
        text += fmt::format("\\x{:02X}", byte);
      } else {
        text += c;
      }
    }
    return text + "\"";
  }
  std::string text;
  for (const char c : bytes) text += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
  return text;
}

// Writes the ids of one input after another.
class IdPrinter {
 public:
  IdPrinter(const engine::Tokenizer& tokenizer, bool as_json)
      : tokenizer_(tokenizer), as_json_(as_json) {}

  Result<void> print(const std::string& text) {
    EXO_TRY(const std::vector<std::uint32_t> ids, tokenizer_.encode(text));
    if (as_json_) {
      fmt::print("{}[{}]", count_ == 0 ? "[" : ",\n ", fmt::join(ids, ", "));
    } else {
      if (count_ > 0) fmt::print("\n");
      for (const std::uint32_t id : ids)
        fmt::print("{:>8}  {}\n", id, quoted(tokenizer_.bytes_of(id)));
    }
    ++count_;
    return {};
  }

  void finish() const {
    if (as_json_) fmt::print("{}]\n", count_ == 0 ? "[" : "");
  }

 private:
  const engine::Tokenizer& tokenizer_;
  bool as_json_;
  std::size_t count_ = 0;
};

// Each line of standard input is an input of its own.
Result<void> print_lines(IdPrinter& printer) {
  std::string line;
  for (std::size_t number = 1; std::getline(std::cin, line); ++number) {
    if (!is_valid_utf8(line)) {
      return fail(ErrorCode::kInvalidInput, "the input is not UTF-8",
                  fmt::format("line {} of standard input", number));
    }
    EXO_TRY(printer.print(line));
  }
  return {};
}

Result<void> tokenize(const Context& context, const TokenizeOptions& options) {
  EXO_TRY(const auto source, find_tokenizer(context, options.model));
  EXO_TRY(const std::string document, source->tokenizer_json());
  if (!options.export_file.empty()) {
    EXO_TRY(write_file(options.export_file, document));
    if (options.text.empty()) return {};
  }
  EXO_TRY(const engine::Tokenizer tokenizer, engine::Tokenizer::open(document));
  IdPrinter printer(tokenizer, options.as_json);
  if (options.text.empty() || options.text == "-") {
    EXO_TRY(print_lines(printer));
  } else {
    EXO_TRY(printer.print(options.text));
  }
  printer.finish();
  return {};
}

}  // namespace

void add_tokenize(CommandTree& tree) {
  auto options = std::make_shared<TokenizeOptions>();
  Invocation& invocation = tree.invocation();
  tree.add("tokenize", "Show the token ids of a text")
      .required("MODEL", options->model,
                "a model of the store, a file or a directory; a vocabulary is enough")
      .text("TEXT", options->text, "the text; -, or nothing, for each line of standard input")
      .flag("--json", options->as_json, "a JSON list with one list of ids per input")
      .text("--export", options->export_file, "write the model's tokenizer.json to this file")
      .settings({})
      .footer(
          "No special tokens are added; those that the text spells out get their ids.\n\n"
          "Examples:\n"
          "  exo tokenize smollm2 \"Why is the sky blue?\"\n"
          "  exo tokenize model.gguf --json - < lines.txt\n"
          "  exo tokenize model.gguf --export tokenizer.json")
      .runs([&invocation, options] {
        const auto context = open_context(invocation);
        if (!context) return report(context.error());
        const auto done = tokenize(*context, *options);
        return done ? 0 : report(done.error());
      });
}

}  // namespace exo::app
