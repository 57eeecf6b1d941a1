"""An engine in plain Python: a failed node gets two more attempts, then its run is paused for a person to look at."""
import os
import queue
import random
import sys
import threading
import time

import grpc
from signalbox.engine.v1 import directive_pb2, engine_service_pb2_grpc, session_pb2 as pb

# The same three variables for every engine, whether the host starts it or you do.
ADDR, TOKEN, SUPERVISOR = (os.environ.get(name) or sys.exit(f"{name} is not set; see README.md") for name in (
    "SIGNALBOX_ENGINE_ADDR", "SIGNALBOX_ENGINE_TOKEN", "SIGNALBOX_SUPERVISOR"))


def decide(signal):
    """Turns a signal into a directive, or into nothing. All of the policy is here."""
    if signal.HasField("review"):  # What people command passes; a verdict could deny it, with a reason.
        return directive_pb2.Directive(key=f"answers:{signal.id}", review_verdict=directive_pb2.ReviewVerdict(
            answers=signal.id, verdict=directive_pb2.VERDICT_ALLOW))
    event = signal.event
    if event.kind != "NODE_STATUS" or event.status != "FAILED":
        return None
    if event.attempt <= 2:
        op, target, reason = "node.retry", f"node:{event.execution}/{event.node}", f"attempt {event.attempt} failed"
    else:
        op, target, reason = "run.pause", f"execution:{event.execution}", f"{event.node} failed {event.attempt} times"
    # The cause names the event. The key comes from it too, so an event that is delivered twice has one effect.
    return directive_pb2.Directive(key=f"retry-then-pause/{signal.id}", cause=f"event:{signal.id}", reason=reason,
                                   command=directive_pb2.Command(op=op, target=target))


def heartbeat(outbox, ended):  # Something must be sent every 10 seconds, so that the host notices a dead engine.
    while not ended.wait(9):
        outbox.put(pb.ConnectRequest(alive=pb.Alive()))


def session(stub):
    """Runs one session: says hello, then answers events until the host ends the stream."""
    outbox, ended = queue.Queue(), threading.Event()  # What is put into the outbox is sent; None ends our half.
    outbox.put(pb.ConnectRequest(hello=pb.Hello(supervisor=SUPERVISOR, engine=pb.EngineInfo(name="python-retry"),
        contract_version=1, heartbeat=True, event_kinds=["NODE_STATUS"], signals=["Event", "Review"])))
    threading.Thread(target=heartbeat, args=(outbox, ended), daemon=True).start()
    waiting, open_keys = [], set()  # (cursor, key) of each event; the keys that have no result yet.
    try:
        for response in stub.Connect(iter(outbox.get, None), metadata=[("authorization", f"Bearer {TOKEN}")]):
            signal, result = response.signal, response.result
            directive = decide(signal) if response.HasField("signal") else None
            if signal.HasField("event"):
                waiting.append((signal.event.cursor, directive and directive.key))
            if directive:
                open_keys.add(directive.key)
                outbox.put(pb.ConnectRequest(directive=directive))
            if response.HasField("result"):
                print(result.key, result.status, result.message, *(t.outcome for t in result.targets), flush=True)
                open_keys.discard(result.key)
            elif response.goaway.reason == "REPLACED":
                sys.exit("another engine took over this supervisor; run only one")
            # An event is acknowledged after its directive has a result, and never before an older event.
            while waiting and waiting[0][1] not in open_keys:
                outbox.put(pb.ConnectRequest(ack=pb.Ack(cursor=waiting.pop(0)[0])))
    finally:
        ended.set()
        outbox.put(None)


delay = 0.2  # Seconds before the next try; it doubles with each failure, up to 30.
while True:
    began = time.monotonic()
    try:
        with grpc.insecure_channel(ADDR.removeprefix("http://")) as channel:
            session(engine_service_pb2_grpc.EngineServiceStub(channel))
    except grpc.RpcError as error:
        if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            sys.exit(f"the host refuses this engine: {error.details()}; issue a new credential")
        print(f"session failed: {error.code().name}: {error.details()}", file=sys.stderr, flush=True)
    delay = 0.2 if time.monotonic() - began > 60 else min(30, delay * 2)
    time.sleep(delay * random.uniform(0.5, 1))
