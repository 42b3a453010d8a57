// Runs inside of pages under test, once for every question.
const kit = (() => {
  const first = (selector) => {
    const element = document.querySelector(selector);
    if (!element) throw new Error(`nothing matches ${selector}`);
    return element;
  };
  const visible = (element) =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && element.getClientRects().length > 0;

  // describe names an element so that a person finds it.
  const describe = (element) => {
    const tag = element.tagName.toLowerCase();
    if (element.id) return `${tag}#${element.id}`;
    const name = element.getAttribute('name');
    if (name) return `${tag}[name=${name}]`;
    const classes = [...element.classList].map((c) => '.' + c).join('');
    const text = (element.textContent || '').trim().replace(/\s+/g, ' ').slice(0, 40);
    return tag + classes + (text && tag !== 'body' && tag !== 'html' ? ` "${text}"` : '');
  };

  const shown = (element) => (element.innerText ?? element.textContent).trim();

  // path is a selector of this element alone.
  const path = (element) => {
    const steps = [];
    for (let e = element; e !== document.documentElement; e = e.parentElement)
      steps.unshift(`:nth-child(${[...e.parentElement.children].indexOf(e) + 1})`);
    return [':root', ...steps].join(' > ');
  };

  // submitter returns a selector of the button that sends a form.
  const submitter = (selector) => {
    const element = first(selector);
    if (element.tagName !== 'FORM') return selector;
    const isSubmit = (e) => e.type === 'submit' || e.type === 'image';
    const button = [...element.elements].find((e) => isSubmit(e) && !e.disabled && visible(e));
    if (!button) throw new Error(`${selector} has no button that sends it`);
    return path(button);
  };

  // clickable returns the middle of the first match once a click there hits it.
  const clickable = (selector) => {
    const element = first(selector);
    if (!visible(element)) throw new Error(`${selector} cannot be seen`);
    if (element.matches(':disabled')) throw new Error(`${selector} is disabled`);
    element.scrollIntoView({ block: 'center', inline: 'nearest', behavior: 'instant' });
    const box = element.getClientRects()[0];
    const at = { X: box.x + box.width / 2, Y: box.y + box.height / 2 };
    const hit = document.elementFromPoint(at.X, at.Y);
    const labels = [...(element.labels ?? [])];
    if (!hit || !(element.contains(hit) || hit.contains(element) || labels.some((l) => l.contains(hit))))
      throw new Error(`${selector} is covered by ${hit ? describe(hit) : 'nothing: it is outside of the viewport'}`);
    return at;
  };

  const changed = (field) => {
    for (const type of ['input', 'change']) field.dispatchEvent(new Event(type, { bubbles: true }));
    return true;
  };

  // take readies a field for typing. Fields that are put together from parts,
  // such as dates, get their value at once.
  const take = (selector, text) => {
    const field = first(selector);
    if (!visible(field)) throw new Error(`${selector} cannot be seen`);
    if (field.matches(':disabled, :read-only')) throw new Error(`${selector} cannot be written to`);
    field.focus();
    if (['date', 'datetime-local', 'month', 'week', 'time', 'color', 'range'].includes(field.type)) {
      field.value = text;
      return !changed(field);
    }
    field.select();
    return true;
  };

  const choose = (selector, wanted) => {
    const list = first(selector);
    const options = [...list.options];
    const option = options.find((o) => o.value === wanted) ?? options.find((o) => o.text.trim() === wanted);
    if (!option) throw new Error(`${selector} has no ${wanted}, only ${options.map((o) => o.value).join(', ')}`);
    list.focus();
    option.selected = true;
    return changed(list);
  };

  return {
    describe,
    seen: visible,
    path,
    submitter,
    clickable,
    take,
    choose,
    visible: (selector) => {
      const all = [...document.querySelectorAll(selector)];
      if (!all.some(visible)) throw new Error(`${all.length} match ${selector}, none of them visible`);
      return true;
    },
    text: (selector) => shown(first(selector)),
    texts: (selector) => [...document.querySelectorAll(selector)].map(shown),
    value: (selector) => first(selector).value,
    checked: (selector) => first(selector).checked,
    url: () => location.href,
    title: () => document.title,
    focused: () => describe(document.activeElement ?? document.body),
    size: () => [document.documentElement.clientWidth, document.documentElement.scrollHeight],
  };
})();
