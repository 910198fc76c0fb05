// One visitor out of several lambdas, for an exhaustive std::visit.
#pragma once

namespace exo {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace exo
