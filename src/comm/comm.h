// The front door of comm: process groups of runners that exchange tensors.
//
// - process_group.h: send, receive, all-reduce, all-gather, broadcast among the ranks of a group
// - group_former.h: ranks that know each other's addresses become a group
// - channel.h: the seam: bytes between two ranks
// - shared_memory.h: within one machine; tcp.h: between machines, sealed or plain
// - delayed_channel.h: a channel with a latency added, for measurements
// - handshake.h: mutual authentication with the group's secret; seal.h: its encryption
//
// Leaves to others: who is in a group and where (master, worker), what is computed (engine), and
// telling that a machine died (supervisor and mesh). The main path enters at form_group().
#pragma once

#include "comm/group_former.h"
#include "comm/process_group.h"
