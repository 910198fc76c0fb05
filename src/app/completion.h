// Shell completions, made from the tree of commands so that they cannot lag behind it.
#pragma once

#include <string>
#include <vector>

#include "app/command_tree.h"

namespace exo::app {

std::string bash_completion(const std::vector<CommandWords>& commands);
std::string zsh_completion(const std::vector<CommandWords>& commands);
std::string fish_completion(const std::vector<CommandWords>& commands);

}  // namespace exo::app
