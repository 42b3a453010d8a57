// Looks at the focus of a page; runs inside of it, after kit.js.
const keyboard = (() => {
  const tabbable = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]';

  const path = (element) => {
    const steps = [];
    for (let e = element; e && e !== document.documentElement; e = e.parentElement)
      steps.unshift([...e.parentElement.children].indexOf(e));
    return steps.join('.');
  };

  // marks is how an element shows the focus.
  const marks = (element) => {
    const style = getComputedStyle(element);
    const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 && !/(, 0\)|transparent|\/ 0\))$/.test(style.outlineColor);
    return JSON.stringify([outlined && [style.outlineStyle, style.outlineWidth, style.outlineColor, style.outlineOffset], style.boxShadow]);
  };

  // inSight tells whether some of the element can be seen: it is in the
  // viewport, and something there is not covered.
  const inSight = (element) => [...element.getClientRects()].some((box) =>
    [[0.5, 0.5], [0.1, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.9]].some(([x, y]) => {
      const hit = document.elementFromPoint(box.x + box.width * x, box.y + box.height * y);
      return hit && (element.contains(hit) || [...(element.labels ?? [])].some((l) => l.contains(hit)));
    }));

  // reachable tells of what Tab has to reach; of radio buttons it is one of a
  // group, so they are left out.
  const reachable = (element) =>
    kit.seen(element) && element.tabIndex >= 0 && !element.matches(':disabled, [type=radio]') && !element.closest('[inert]');

  return {
    // start takes the focus away and lists what Tab has to reach, as it looks
    // without the focus.
    start: () => {
      document.activeElement?.blur();
      return [...document.querySelectorAll(tabbable)].filter(reachable)
        .map((e) => ({ Path: path(e), Element: kit.describe(e), Marks: marks(e), InSight: true }));
    },
    now: () => {
      const e = document.activeElement ?? document.body;
      return { Path: path(e), Element: kit.describe(e), Marks: marks(e), InSight: inSight(e), Nowhere: e === document.body || e === document.documentElement };
    },
  };
})();
