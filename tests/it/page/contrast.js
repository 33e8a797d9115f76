// The text with the least contrast (WCAG 2) to what is behind it, as [contrast, text, class]; a bar of the chart counts
// with the contrast it needs, which is 3 in place of 4.5.
(() => {
    const rgb = (text) => text.match(/[\d.]+/g).map(Number);
    const light = (colour) => colour.slice(0, 3).map((v) => v / 255)
        .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = (element) => {
        for (; element; element = element.parentElement) {
            const colour = rgb(getComputedStyle(element).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        throw new Error('nothing is behind it');
    };
    const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const found = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const { data, parentElement: of } = texts.currentNode;
        if (!data.trim() || of.closest('svg') || !of.checkVisibility()) continue;
        found.push([contrast(rgb(getComputedStyle(of).color), behind(of)), data, of.className]);
    }
    for (const bar of document.querySelectorAll('svg rect')) {
        found.push([contrast(rgb(getComputedStyle(bar).fill), behind(bar)) * 1.5, 'a bar', bar.getAttribute('class')]);
    }
    return found.reduce((least, one) => one[0] < least[0] ? one : least);
})()
