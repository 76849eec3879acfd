"""A model that is larger than memory: what a budget costs, told before loading; and the same answer with half of it on disk."""

import sys

import lamina


def main(model=None):
    for memory in (None, "40MiB", "8GiB"):
        plan = lamina.plan(model, memory=memory, context=512)
        speed = plan.predict["decode"][0] if plan.fits else None
        said = f"{speed['tok_s']:.0f} tokens/s, by {speed['bound']}" if speed else plan.problem
        read = plan.disk["step_bytes"] if plan.disk else 0
        print(f"memory {memory or 'all'}: fits {plan.fits}, {read / 1e6:.1f} MB from disk in a step, {said}")

    with lamina.LLM(model, context=512, progress=False) as llm:
        whole = llm.generate("Once upon a time", max_tokens=16, temperature=0)
    # `memory="8GiB"` chooses what stays by itself; here half of the weights stay, to show it with a small model.
    half = lamina.Policy(weights=(0, 50))
    with lamina.LLM(model, context=512, offload=half, progress=False) as llm:
        on_disk = sum(place.get("disk", 0) for place in llm.info.placement.values())
        halved = llm.generate("Once upon a time", max_tokens=16, temperature=0)
        print(f"{on_disk / 1e6:.1f} MB of the weights are on disk, waited {halved.timings.io_wait_seconds:.3f} s for them")
    print("the same answer:", whole.tokens == halved.tokens)


if __name__ == "__main__":
    main(*sys.argv[1:])
