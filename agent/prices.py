"""Whether it is known what a model costs."""

from __future__ import annotations

from agent.models.names import ModelName


def is_known(name: ModelName) -> bool:
    """Whether answers of this model have a price."""
    import genai_prices  # with its table, which nothing but this and an answer's price need

    try:
        usage = genai_prices.Usage(input_tokens=1, output_tokens=1)
        genai_prices.calc_price(usage, model_ref=name.model, provider_id=name.provider)
    except (LookupError, ValueError):
        return False
    return True
